// Package count adds up and prints structs of counters.
//
// Any goroutine may call it on values that it owns; nothing blocks and nothing
// is durable. Read Add first.
package count

import (
	"fmt"
	"reflect"
	"strings"
)

// Add adds the integer fields of src to those of dst, nested structs included.
// Both are pointers to the same type of struct.
func Add(dst, src any) { add(reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()) }

func add(a, b reflect.Value) {
	for i := range a.NumField() {
		switch f := a.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(f.Int() + b.Field(i).Int())
		case reflect.Struct:
			add(f, b.Field(i))
		}
	}
}

// String lists the integer fields of *v that are not zero.
func String(v any) string {
	var out []string
	list(reflect.ValueOf(v).Elem(), "", &out)
	return strings.Join(out, " ")
}

func list(v reflect.Value, prefix string, out *[]string) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			if f.Int() != 0 {
				*out = append(*out, fmt.Sprintf("%s%s=%d", prefix, name, f.Int()))
			}
		case reflect.Struct:
			list(f, strings.ToLower(name)+".", out)
		}
	}
}
