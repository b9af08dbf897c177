package simserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"syscall"
)

// Child is a process that a server started beside itself and that does nothing but live.
type Child struct {
	// Index numbers a server's children from 0.
	Index int `json:"index"`
	// IgnoreSIGTERM makes it deaf to SIGTERM.
	IgnoreSIGTERM bool `json:"ignore_sigterm,omitzero"`
	// OwnSession puts it into a session of its own.
	OwnSession bool `json:"own_session,omitzero"`
}

// Respawn is an [Options.Spawn] that starts the program self with args and, as the last argument, the child as JSON;
// that program must call [RunChild] with it. The children outlive ctx, as forgotten workers do.
func Respawn(self string, args ...string) func(context.Context, Child) error {
	return func(ctx context.Context, c Child) error {
		data, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("child %d: %w", c.Index, err)
		}
		argv := append(append([]string{}, args...), string(data))
		cmd := exec.CommandContext(context.WithoutCancel(ctx), self, argv...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: c.OwnSession}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("child %d: %w", c.Index, err)
		}
		go func() { _ = cmd.Wait() }() // reaps it; how it ends is the test's affair
		return nil
	}
}

// RunChild is the life of a child: it prints one line and waits for ctx to end, or for SIGKILL. The caller must not
// cancel ctx on SIGTERM itself.
func RunChild(ctx context.Context, data string, log io.Writer) error {
	var c Child
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		return fmt.Errorf("child: %w", err)
	}
	if c.IgnoreSIGTERM {
		signal.Ignore(syscall.SIGTERM)
		defer signal.Reset(syscall.SIGTERM)
	}
	fmt.Fprintf(log, "child %d lives\n", c.Index)
	<-ctx.Done()
	return nil
}

func (s *server) spawnChildren(ctx context.Context, spawn func(context.Context, Child) error) error {
	k := s.cfg.Children
	if k.Count > 0 && spawn == nil {
		return errors.New("children: this build cannot start any")
	}
	for i := range k.Count {
		c := Child{Index: i, IgnoreSIGTERM: k.IgnoreSIGTERM, OwnSession: k.OwnSession}
		if err := spawn(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
