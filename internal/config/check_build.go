package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// baselineRules hold where builds are kept.
func (f *File) baselineRules() []rule {
	b := f.Baseline
	rules := []rule{
		{
			"baseline.cache", b.Cache != "" && !filepath.IsAbs(b.Cache), shown(b.Cache) + " is not an absolute path: it would be another folder in each checkout",
			"begin it with /; ~ and variables are not expanded",
		},
		{
			"baseline.protected", len(b.Protected) > 0 && b.Cache == "", "there is no cache to protect",
			"set baseline.cache, or leave it out",
		},
	}
	for i, name := range b.Protected {
		rules = append(rules, rule{
			fmt.Sprintf("baseline.protected[%d]", i), name == "" || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "refs/") || strings.ContainsAny(name, " ~^:?*[\\"),
			shown(name) + " is not the name of a branch", "write it without refs/heads/, as in main",
		})
	}
	return rules
}

// passRules hold the names that are taken from the caller's environment.
func (f *File) passRules() []rule {
	var rules []rule
	for i, name := range f.Target.PassEnv {
		path := fmt.Sprintf("target.pass_env[%d]", i)
		rules = append(
			rules,
			rule{path, !variableName.MatchString(name), shown(name) + " is not the name of a variable", "list names only; values come from the caller's environment"},
			rule{path, neverPasses(name), name + " never reaches a build or a server", "give the service a variable of another name"},
		)
	}
	return rules
}

// neverPasses reports whether a name belongs to the CI runner, or is LD_BIND_NOW, which makes optional driver symbols fatal.
func neverPasses(name string) bool {
	return name == "LD_BIND_NOW" || slices.ContainsFunc([]string{"GITHUB_", "ACTIONS_", "INPUT_"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// cacheEnvRules hold the names of compile caches: nothing else may set them.
func (f *File) cacheEnvRules() []rule {
	t := f.Target
	var rules []rule
	for i, name := range t.CacheEnv {
		path := fmt.Sprintf("target.cache_env[%d]", i)
		rules = append(
			rules,
			rule{path, !variableName.MatchString(name), shown(name) + " is not the name of a variable", "list names only; tailgate makes the folders"},
			rule{path, slices.Contains([]string{"PORT", "TMPDIR", "TAILGATE_RUN", "PATH", "HOME"}, name), name + " is set otherwise", "name the variable of a compile cache"},
			rule{path, slices.Index(t.CacheEnv, name) != i, name + " is listed twice", "leave one of them out"},
		)
		for _, other := range []struct {
			path string
			sets bool
		}{
			{"target.env", has(t.Env, name)},
			{"target.pass_env", slices.Contains(t.PassEnv, name)},
			{"arms.base.env", f.Arms.Base != nil && has(f.Arms.Base.Env, name)},
			{"arms.head.env", f.Arms.Head != nil && has(f.Arms.Head.Env, name)},
		} {
			rules = append(rules, rule{path, other.sets, name + " is set by " + other.path + " too", "leave it out of one of them"})
		}
	}
	return rules
}

func has(env map[string]string, name string) bool {
	_, ok := env[name]
	return ok
}
