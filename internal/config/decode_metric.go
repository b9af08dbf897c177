package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// slo decodes limits, each in the unit of its metric.
func (d *decoder) slo(n ast.Node, target *SLO, path string) error {
	entries, err := d.entries(n, path, sloKeys())
	if err != nil {
		return err
	}
	*target = SLO{}
	for _, entry := range entries {
		key := keyOf(entry)
		x, err := d.quantity(entry.Value, unitOf(key), join(path, key))
		if err != nil {
			return err
		}
		(*target)[key] = x
	}
	return nil
}

// quantity decodes one number in a metric's unit.
func (d *decoder) quantity(n ast.Node, unit, path string) (float64, error) {
	if at, ok := position(n); ok {
		d.at[path] = at
	}
	word, ok := wordOf(n)
	x, as, fits := quantity(unit, word)
	switch {
	case !ok:
		return 0, d.fault(path, path+" is "+kind(n)+", not "+as.name, "write "+as.write)
	case !fits:
		return 0, d.misfit(path, word, as)
	}
	return x, nil
}

// tolerances decodes the gated metrics. A section that is present replaces the default list.
func (d *decoder) tolerances(n ast.Node, target *Tolerances, path string) error {
	if err := d.noErrorRate(n, path); err != nil {
		return err
	}
	entries, err := d.entries(n, path, toleranceKeys())
	if err != nil {
		return err
	}
	*target = Tolerances{}
	for _, entry := range entries {
		key := keyOf(entry)
		t, err := d.tolerance(entry.Value, key, join(path, key))
		if err != nil {
			return err
		}
		(*target)[key] = t
	}
	return nil
}

// noErrorRate catches the one known metric that takes no tolerance, to say why.
func (d *decoder) noErrorRate(n ast.Node, path string) error {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return nil
	}
	for _, entry := range m.Values {
		if keyOf(entry) != errorRate {
			continue
		}
		at, ok := position(entry.Key)
		if ok {
			d.at[join(path, errorRate)] = at
		}
		return d.fault(join(path, errorRate), "tolerance: error_rate takes no tolerance: failures are always judged",
			"set an absolute limit as slo.error_rate")
	}
	return nil
}

// toleranceSection is the long form of a tolerance. Absolute has the metric's unit and is decoded apart.
type toleranceSection struct {
	Relative Percent `yaml:"relative" doc:"Share of base's value, above 0% and below 100%. Unset: the metric's default."`
	Absolute string  `yaml:"absolute" doc:"Smallest change that matters, in the metric's unit; a change must exceed both."`
	Force    bool    `yaml:"force" doc:"Gate the metric although a round has too few requests for it."`
}

// tolerance decodes 5%, or a section for more.
func (d *decoder) tolerance(n ast.Node, key, path string) (Tolerance, error) {
	t := Tolerance{Relative: defaultRelative(key), Named: true}
	if _, isWord := wordOf(n); isWord || n.Type() == ast.SequenceType {
		return t, d.node(n, reflect.ValueOf(&t.Relative).Elem(), path, "")
	}
	long := toleranceSection{Relative: t.Relative}
	if err := d.node(n, reflect.ValueOf(&long).Elem(), path, ""); err != nil {
		return t, err
	}
	t.Relative, t.Force = long.Relative, long.Force
	if long.Absolute == "" {
		return t, nil
	}
	x, as, fits := quantity(unitOf(key), long.Absolute)
	if !fits {
		return t, d.misfit(join(path, "absolute"), long.Absolute, as)
	}
	t.Absolute = x
	return t, nil
}

// wordOf is the source text of a scalar, false for anything else and for null.
func wordOf(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return strings.TrimSpace(n.GetToken().Value), true
	default:
		return "", false
	}
}

// keyOf is the text of a mapping's key.
func keyOf(entry *ast.MappingValueNode) string {
	if word, ok := wordOf(entry.Key); ok {
		return word
	}
	if t := entry.Key.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

// kind names what a node is, for people.
func kind(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "a section"
	case ast.SequenceType:
		return "a list"
	case ast.NullType:
		return "empty"
	case ast.AnchorType, ast.AliasType, ast.TagType:
		return "an anchor, alias or tag"
	default:
		return "a single value"
	}
}

// plainKind names what a plain field wants.
func plainKind(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	default:
		return "text"
	}
}

// choices lists the words of an enum: "a, b or c".
func choices(enum string) string {
	words := strings.Split(enum, "|")
	last := len(words) - 1
	return fmt.Sprintf("%s or %s", strings.Join(words[:last], ", "), words[last])
}
