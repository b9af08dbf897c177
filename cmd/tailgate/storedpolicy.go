package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/internal/proc"
)

// maskedLine heads the copy of a policy in which something is masked. A verdict depends on nothing that is: the copy judges as the
// original does, whose digest the run has on record.
const maskedLine = "# tailgate: secrets are masked in this copy (values of names with TOKEN, KEY, SECRET or PASSWORD, what URLs carry beyond an\n" +
	"# address); policy.sha256 in run.json is the digest of the original.\n"

// storedPolicy is a policy as it may be kept. The values of secret variables are hidden, those of 6 bytes or more also where a
// command, an argument, another variable or a comment repeats them, and what is secret of the addresses of running servers. What
// needs no masking is kept byte by byte.
func storedPolicy(name string, text []byte) ([]byte, error) {
	var found policySecrets
	if _, err := config.Stored(name, text, found.collect); err != nil {
		return nil, err
	}
	found.mask = proc.NewMask(found.env)
	kept, err := config.Stored(name, text, found.hide)
	if err == nil && !bytes.Equal(kept, text) {
		kept = append([]byte(maskedLine), kept...)
		if _, err = config.Parse(name, kept); err == nil {
			return kept, nil
		}
	}
	if err != nil {
		return nil, usage(fmt.Errorf("the policy cannot be kept with its secrets masked: %w", err), "name its secrets in target.pass_env in place of writing them into the file")
	}
	return text, nil
}

// policySecrets are the secrets that one policy spells out.
type policySecrets struct {
	// env are the secret variables, NAME=value; urls the addresses of running servers.
	env, urls []string
	mask      *proc.Mask
}

// variable is the name of the environment variable that a path leads to; false for other paths.
func variable(path string) (name string, ok bool) {
	for _, section := range []string{"target.env.", "arms.base.env.", "arms.head.env."} {
		if name, ok = strings.CutPrefix(path, section); ok {
			return name, true
		}
	}
	return "", false
}

// address reports whether a path leads to the URL of a running server.
func address(path string) bool { return path == "target.url.base" || path == "target.url.head" }

// spoken reports whether a path leads to text that may repeat a secret and that no verdict depends on.
func spoken(path string) bool {
	if _, ok := variable(path); ok {
		return true
	}
	switch list, _, _ := strings.Cut(path, "["); list {
	case "", "target.build", "target.start", "target.stop_command", "target.pids", "target.image_digest", "target.toolchain", "arms.base.args", "arms.head.args":
		return true
	}
	return false
}

// collect changes nothing.
func (p *policySecrets) collect(path, text string) string {
	if name, ok := variable(path); ok && proc.Secret(name) {
		p.env = append(p.env, name+"="+text)
	}
	if address(path) && text != "" {
		p.urls = append(p.urls, text)
	}
	return text
}

// hide is what is to stand in the place of a value, or of a comment.
func (p *policySecrets) hide(path, text string) string {
	name, ok := variable(path)
	switch {
	case ok && proc.Secret(name) && text != "":
		return stars
	case address(path) && text != "":
		return maskURL(text)
	case path == "":
		for _, raw := range p.urls {
			text = strings.ReplaceAll(text, raw, maskURL(raw))
		}
		return p.mask.String(text)
	case spoken(path):
		return p.mask.String(text)
	}
	return text
}

// sameFile reports whether two paths lead to one file that exists.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
