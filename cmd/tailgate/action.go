package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/actions"
	"github.com/tailgate-ci/tailgate/runner/record"
)

func (a *app) actionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "action",
		Short: "What the GitHub Action calls inside a job",
		Long: `action run measures and judges; action publish writes the job summary and the comment. action.yml calls both, in this order
and in two steps, so that the token is in the environment of the second only. Inputs arrive as INPUT_ variables;
docs/action.md lists them. action cleanup takes away what a run left.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "run", Short: "Measure what the event is about; the exit code is the verdict", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.actionRun(cmd.Context()) },
		},
		&cobra.Command{
			Use: "publish", Short: "Write the job summary and the comment of a result", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.actionPublish(cmd.Context()) },
		},
		a.cleanupCommand(),
	)
	return cmd
}

// actionRun measures, sets the outputs whatever came of it, and ends with the verdict's exit code. Everything it prints passes
// through logs that hold no command to the runner.
func (a *app) actionRun(ctx context.Context) error {
	commands := actions.NewCommands(a.getenv, a.out)
	out, log := actions.NewLog(a.out), actions.NewLog(a.err)
	quiet := &app{out: out, err: log, environ: a.environ, ascii: a.ascii, urgent: a.urgent}
	result, err := quiet.measureJob(ctx)
	closeErr := errors.Join(log.Close(), out.Close())
	if err != nil {
		exit, ok := errors.AsType[*exitError](err)
		if !ok {
			exit = usage(err, "")
		}
		if exit.err != nil {
			closeErr = errors.Join(closeErr, commands.Error(explained(exit)))
		}
		result.Reason = cmp.Or(result.Reason, reasonOf(exit))
		err = &exitError{code: exit.code}
	} else if result.Judgement.Verdict != gate.Pass {
		closeErr = errors.Join(closeErr, commands.Error(result.Judgement.Line))
	}
	// The verdict stands even where it cannot be told to the steps after this one.
	if outErr := errors.Join(closeErr, commands.Outcome(result)); outErr != nil {
		fmt.Fprintf(log, "tailgate: %v\n", outErr)
	}
	if err != nil {
		return err
	}
	return verdictExit(result.Judgement.Verdict)
}

// explained is an error and what to do about it.
func explained(e *exitError) string {
	text := "tailgate: " + e.err.Error()
	if e.hint != "" {
		text += "\nnext: " + e.hint
	}
	return text
}

// reasonOf is the output "reason" of a run that ended without a judgement.
func reasonOf(e *exitError) string {
	if refused, ok := errors.AsType[*actions.RefusedError](e.err); ok {
		return refused.Reason
	}
	switch e.code {
	case gate.ExitInterrupted, gate.ExitTerminated:
		return record.Cancelled
	case gate.ExitUsage:
		return "config"
	}
	return record.InternalFault
}

// measureJob does the comparison that the job's event and inputs ask for. The outcome holds what is known, also beside an
// error.
func (a *app) measureJob(ctx context.Context) (actions.Outcome, error) {
	j, err := a.readJob()
	if err != nil {
		return actions.Outcome{}, usage(err, "")
	}
	c, err := a.jobComparison(ctx, j)
	if err != nil {
		return actions.Outcome{}, err
	}
	o, err := c.compare(ctx)
	result := actions.Outcome{Run: c.run}
	if c.writer != nil {
		result.Dir = c.writer.Dir()
	}
	if err != nil {
		return result, err
	}
	result.Judgement = &o.judgement
	if err := a.show(o); err != nil {
		if _, verdict := errors.AsType[*exitError](err); !verdict {
			return result, err
		}
	}
	return result, nil
}

// actionPublish writes the summary and the comment. What cannot be posted is a warning; only comment: always makes it an error.
func (a *app) actionPublish(ctx context.Context) error {
	commands := actions.NewCommands(a.getenv, a.out)
	j, err := a.readJob()
	if err != nil {
		// The run step refused the same event or input, and said why.
		return a.published(commands, actions.Published{Status: actions.Off}, nil, false)
	}
	always := j.inputs.Comment == actions.CommentAlways
	dir := a.getenv("TAILGATE_RESULT")
	if dir == "" {
		return a.published(commands, actions.Published{Status: actions.Off}, nil, false)
	}
	result, err := actions.OpenResult(dir)
	if errors.Is(err, actions.ErrNotJudged) {
		return a.published(commands, actions.Published{Status: actions.Off}, commands.Summary("**tailgate: cancelled**, nothing was judged.\n"), false)
	}
	if err != nil {
		return a.published(commands, actions.Published{Status: actions.Off}, err, always)
	}
	summary, err := result.Summary(j.job)
	if err == nil {
		err = commands.Summary(summary)
	}
	if err != nil {
		_ = commands.Warning("tailgate: job summary: " + err.Error())
	}
	p, err := actions.Publish(ctx, actions.Options{
		Job: j.job, Event: j.event, Inputs: j.inputs, Result: result,
		Token: a.getenv("INPUT_GITHUB_TOKEN"), UserAgent: "tailgate/" + strings.TrimSpace(tool().Version),
		Transport: http.DefaultTransport, Wait: wait, Now: time.Now,
	})
	return a.published(commands, p, err, always)
}

// published sets the outputs of the publish step and says what went wrong.
func (a *app) published(commands *actions.Commands, p actions.Published, err error, always bool) error {
	if err != nil {
		_ = commands.Warning("tailgate: " + err.Error() + "; the verdict stands")
	}
	setErr := errors.Join(commands.Set("publish-status", string(p.Status)), commands.Set("comment-url", p.URL))
	if setErr != nil {
		_ = commands.Warning("tailgate: " + setErr.Error())
	}
	if err != nil && always {
		return &exitError{code: gate.ExitUsage}
	}
	fmt.Fprintf(actions.NewLog(a.err), "comment: %s %s\n", p.Status, p.URL)
	return nil
}

// wait sleeps until the time is over or the context ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
