// Package actions is the postman between tailgate and GitHub: it reads a job's inputs and event, writes outputs and the job
// summary, and keeps one comment per pull request up to date.
//
// It is the only importer of go-github and go-githubactions. It may read gate, gate/report and runner/record, so that a
// report is rendered from the stored run; it can neither measure nor build. Everything that reaches it from a branch name, a
// payload or an old comment is foreign text: checked where it is read, and never written where the runner would obey it.
// Environment, clock and connections are parameters.
package actions
