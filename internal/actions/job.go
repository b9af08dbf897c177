package actions

import (
	"fmt"
	"strconv"
	"strings"
)

// Job is what the runner says of the job this process runs in.
type Job struct {
	// Repository is owner/name. SHA is the commit that the event is about.
	Repository, SHA string
	// RunID is the number of the workflow run; Attempt counts its re-runs from 1.
	RunID   string
	Attempt int
	// Workflow and Name are the names of workflow and job, foreign text.
	Workflow, Name string
	// EventName is the event, EventPath the file with its payload.
	EventName, EventPath string
	// Server, API and GraphQL are addresses without a final slash.
	Server, API, GraphQL string
	// Temp and Workspace are absolute paths; RunnerName is the runner's, foreign text.
	Temp, Workspace, RunnerName string
}

// MissingError is a variable that every job has and this process has not.
type MissingError struct{ Name string }

// Error names the variable.
func (e *MissingError) Error() string {
	return e.Name + " is not set: `tailgate action` is what action.yml calls, inside a job; at a terminal use `tailgate run`"
}

// ReadJob reads the runner's variables. The error is a [MissingError] or says which value makes no sense.
func ReadJob(lookup func(string) (string, bool)) (Job, error) {
	var missing *MissingError
	get := func(name string) string {
		v, _ := lookup(name)
		if v == "" && missing == nil {
			missing = &MissingError{name}
		}
		return v
	}
	or := func(name, otherwise string) string {
		if v, _ := lookup(name); v != "" {
			return strings.TrimSuffix(v, "/")
		}
		return otherwise
	}
	get("GITHUB_OUTPUT")
	job := Job{
		Repository: get("GITHUB_REPOSITORY"), RunID: get("GITHUB_RUN_ID"),
		EventName: get("GITHUB_EVENT_NAME"), EventPath: get("GITHUB_EVENT_PATH"),
		Temp: get("RUNNER_TEMP"), Workspace: get("GITHUB_WORKSPACE"),
		SHA: or("GITHUB_SHA", ""), Workflow: or("GITHUB_WORKFLOW", ""), Name: or("GITHUB_JOB", ""), RunnerName: or("RUNNER_NAME", ""),
		Server: or("GITHUB_SERVER_URL", "https://github.com"), API: or("GITHUB_API_URL", "https://api.github.com"),
		GraphQL: or("GITHUB_GRAPHQL_URL", "https://api.github.com/graphql"),
	}
	if missing != nil {
		return job, missing
	}
	if _, err := strconv.ParseUint(job.RunID, 10, 63); err != nil {
		return job, fmt.Errorf("GITHUB_RUN_ID: %q is no number", oneLine(job.RunID, shownValue))
	}
	if owner, name, ok := strings.Cut(job.Repository, "/"); !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return job, fmt.Errorf("GITHUB_REPOSITORY: %q is not owner/name", oneLine(job.Repository, shownValue))
	}
	attempt := or("GITHUB_RUN_ATTEMPT", "1")
	var err error
	if job.Attempt, err = strconv.Atoi(attempt); err != nil || job.Attempt < 1 {
		return job, fmt.Errorf("GITHUB_RUN_ATTEMPT: %q is no positive number", oneLine(attempt, shownValue))
	}
	return job, nil
}

// URL is the address of the run's page.
func (j Job) URL() string {
	url := j.Server + "/" + j.Repository + "/actions/runs/" + j.RunID
	if j.Attempt > 1 {
		url += "/attempts/" + strconv.Itoa(j.Attempt)
	}
	return url
}

// slug splits the repository into owner and name.
func (j Job) slug() (owner, name string) {
	owner, name, _ = strings.Cut(j.Repository, "/")
	return owner, name
}
