package config

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// decoder walks the syntax tree along the structs of the format and remembers where each value stood.
type decoder struct{ source }

// node decodes n into v, which sits at path. The words of enum, separated by bars, are the values a string may take.
func (d *decoder) node(n ast.Node, v reflect.Value, path, enum string) error {
	if at, ok := position(n); ok {
		d.at[path] = at
	}
	switch n.Type() {
	case ast.NullType:
		// A key without a value says nothing: its default stands, and it counts as not set.
		delete(d.at, path)
		return nil
	case ast.AnchorType, ast.AliasType, ast.TagType:
		return d.fault(path, label(path)+": anchors, aliases and tags are not read", "write the value out")
	default:
		return d.value(n, v, path, enum)
	}
}

func (d *decoder) value(n ast.Node, v reflect.Value, path, enum string) error {
	switch target := v.Addr().Interface().(type) {
	case scalar:
		return d.scalar(n, target, path)
	case *SLO:
		return d.slo(n, target, path)
	case *Tolerances:
		return d.tolerances(n, target, path)
	case *Reset:
		if word, ok := wordOf(n); ok {
			return d.noReset(word, target, path)
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(n, v.Elem(), path, enum)
	case reflect.Struct:
		return d.section(n, v, path)
	case reflect.Slice:
		return d.list(n, v, path)
	case reflect.Map:
		return d.environment(n, v, path)
	default:
		return d.word(n, v, path, enum)
	}
}

// noReset decodes the one word that stands for a section.
func (d *decoder) noReset(word string, target *Reset, path string) error {
	if word != "none" {
		return d.fault(path, path+": "+shown(word)+" is not a choice", "write none, or a section with: method, path, expect")
	}
	target.None = true
	return nil
}

// entries lists the keys of a mapping; each may stand once.
func (d *decoder) entries(n ast.Node, path string, allowed []string) ([]*ast.MappingValueNode, error) {
	var entries []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		entries = m.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{m}
	default:
		hint := "write name: value lines below it"
		if allowed != nil {
			hint = "write a section with: " + strings.Join(allowed, ", ")
		}
		return nil, d.fault(path, label(path)+" is "+kind(n)+", not a section", hint)
	}
	seen := map[string]place{}
	for _, entry := range entries {
		key := keyOf(entry)
		at, ok := position(entry.Key)
		if !ok {
			at = place{1, 1}
		}
		if first, twice := seen[key]; twice {
			return nil, &Error{
				d.name, at.line, at.column, within(path) + "key " + shown(key) + " is given twice",
				"the first is in line " + strconv.Itoa(first.line),
			}
		}
		seen[key] = at
		if allowed != nil && !slices.Contains(allowed, key) {
			text, hint := unknown(key, allowed)
			return nil, &Error{d.name, at.line, at.column, within(path) + text, hint}
		}
	}
	return entries, nil
}

// section decodes a mapping into a struct.
func (d *decoder) section(n ast.Node, v reflect.Value, path string) error {
	fields := fieldsOf(v.Type())
	entries, err := d.entries(n, path, names(fields))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		key := keyOf(entry)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
		if err := d.node(entry.Value, v.Field(fields[i].index), join(path, key), fields[i].enum); err != nil {
			return err
		}
	}
	return nil
}

// scalar decodes a word with a unit.
func (d *decoder) scalar(n ast.Node, target scalar, path string) error {
	as := target.form()
	word, ok := wordOf(n)
	if !ok {
		return d.fault(path, label(path)+" is "+kind(n)+", not "+as.name, "write "+as.write)
	}
	if !target.set(word) {
		return d.misfit(path, word, as)
	}
	return nil
}

var bareNumber = regexp.MustCompile(`^[-+]?[0-9.]+$`)

// misfit explains a word that is not of its form; the usual slip is a missing unit.
func (d *decoder) misfit(path, word string, as form) *Error {
	if bareNumber.MatchString(word) {
		return d.fault(path, path+": "+word+" has no unit", "write "+as.write)
	}
	return d.fault(path, path+": "+shown(word)+" is not "+as.name, "write "+as.write)
}

// list decodes a sequence of words.
func (d *decoder) list(n ast.Node, v reflect.Value, path string) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return d.fault(path, path+" is "+kind(n)+", not a list", "write [one, two]")
	}
	list := make([]string, 0, len(seq.Values))
	for i, item := range seq.Values {
		at := path + "[" + strconv.Itoa(i) + "]"
		if where, ok := position(item); ok {
			d.at[at] = where
		}
		word, ok := wordOf(item)
		if !ok {
			return d.fault(at, at+" is "+kind(item)+", not text", "put it in quotes")
		}
		list = append(list, word)
	}
	v.Set(reflect.ValueOf(list))
	return nil
}

// environment decodes variables. Numbers and booleans keep their spelling: an environment holds text.
func (d *decoder) environment(n ast.Node, v reflect.Value, path string) error {
	entries, err := d.entries(n, path, nil)
	if err != nil {
		return err
	}
	env := make(map[string]string, len(entries))
	for _, entry := range entries {
		key := keyOf(entry)
		at := join(path, key)
		if where, ok := position(entry.Key); ok {
			d.at[at] = where
		}
		word, ok := wordOf(entry.Value)
		if !ok {
			return d.fault(at, at+" is "+kind(entry.Value)+", not text", `put it in quotes; "" is an empty value`)
		}
		env[key] = word
	}
	v.Set(reflect.ValueOf(env))
	return nil
}

// word decodes text, numbers and booleans.
func (d *decoder) word(n ast.Node, v reflect.Value, path, enum string) error {
	word, ok := wordOf(n)
	if !ok {
		return d.fault(path, path+" is "+kind(n)+", not "+plainKind(v), "")
	}
	switch v.Kind() {
	case reflect.String:
		if enum != "" && !slices.Contains(strings.Split(enum, "|"), word) {
			return d.fault(path, path+": "+shown(word)+" is not a choice", "write "+choices(enum))
		}
		v.SetString(word)
	case reflect.Int:
		i, err := strconv.ParseInt(word, 10, 32)
		if err != nil || n.Type() != ast.IntegerType {
			return d.fault(path, path+": "+shown(word)+" is not a whole number", "")
		}
		v.SetInt(i)
	case reflect.Float64:
		x, err := strconv.ParseFloat(word, 64)
		if err != nil || !bareNumber.MatchString(word) {
			return d.fault(path, path+": "+shown(word)+" is not a number", "")
		}
		v.SetFloat(x)
	default:
		if n.Type() != ast.BoolType {
			return d.fault(path, path+": "+shown(word)+" is neither true nor false", "")
		}
		v.SetBool(strings.EqualFold(word, "true"))
	}
	return nil
}
