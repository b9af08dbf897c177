package tailgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// longest is the hard limit on a function's lines; tables and generated code are data, not functions.
const longest = 100

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.Doc) < 40 && len(p.GoFiles)+len(p.CgoFiles) > 0 {
			t.Errorf("package %s: its doc comment must say what the room is for and what it may touch", p.ImportPath)
		}
	}
}

func TestNoReplace(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^\s*replace\b`).Match(mod) {
		t.Error("go.mod has a replace directive: `go install` of a release would not build what we tested")
	}
}

// Every dependency earns its place in one sentence.
func TestDependenciesAreExplained(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || !strings.Contains(fields[0], ".") || strings.Contains(line, "indirect") {
			continue
		}
		if !strings.Contains(string(page), "`"+fields[0]+"`") {
			t.Errorf("docs/dependencies.md does not say why %s is there", fields[0])
		}
	}
}

// TestExportsAreDocumented parses every file of ours and reports the budget of the house: lines of files and functions
// inform, an undocumented export or a function over the limit fails.
func TestExportsAreDocumented(t *testing.T) {
	var files, functions []int
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, fset.Position(f.End()).Line)
			for _, decl := range f.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok {
					n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
					functions = append(functions, n)
					if n > longest {
						t.Errorf("%s: %s has %d lines, limit %d", fset.Position(fn.Pos()), fn.Name.Name, n, longest)
					}
				}
				for _, id := range undocumented(decl) {
					t.Errorf("%s: exported %s has no doc comment", fset.Position(id.Pos()), id.Name)
				}
			}
		}
	}
	t.Logf("files: median %d, p90 %d lines; functions: median %d, p90 %d lines", quantile(files, 50), quantile(files, 90), quantile(functions, 50), quantile(functions, 90))
}

func quantile(xs []int, q int) int {
	slices.Sort(xs)
	return xs[(len(xs)*q+99)/100-1]
}

// undocumented lists the exported names a declaration introduces without a doc comment. A comment on a group counts for
// its members.
func undocumented(decl ast.Decl) []*ast.Ident {
	var out []*ast.Ident
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			out = append(out, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					out = append(out, s.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						out = append(out, name)
					}
				}
			}
		}
	}
	return out
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	id, ok := typ.(*ast.Ident)
	return !ok || id.IsExported()
}
