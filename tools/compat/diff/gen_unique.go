package main

import (
	"fmt"
	"reflect"
)

// uniqueFields are the names under which an element of a request may be only
// once; what is named twice is documented to be answered in another way.
var uniqueFields = []string{"Topic", "Name", "Group", "Partition", "ResourceType", "ResourceName"}

// unique takes out of a request what it names twice.
func unique(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			unique(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == tagsType {
			return
		}
		for i := range v.NumField() {
			unique(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || v.Len() == 0 {
			return
		}
		kept := reflect.MakeSlice(v.Type(), 0, v.Len())
		seen := make(map[string]bool)
		for i := range v.Len() {
			k := uniqueKey(v.Index(i))
			if k == "" || !seen[k] {
				kept = reflect.Append(kept, v.Index(i))
			}
			seen[k] = true
		}
		v.Set(kept)
		for i := range v.Len() {
			unique(v.Index(i))
		}
	}
}

func uniqueKey(v reflect.Value) string {
	if v.Kind() != reflect.Struct {
		return fmt.Sprint(v.Interface())
	}
	k := ""
	for _, name := range uniqueFields {
		f := v.FieldByName(name)
		if f.IsValid() && f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		if f.IsValid() && f.CanInt() {
			k += fmt.Sprintf("%s=%d ", name, f.Int())
		} else if f.IsValid() {
			k += fmt.Sprintf("%s=%v ", name, f.Interface())
		}
	}
	if id := v.FieldByName("TopicID"); id.IsValid() && k == "Topic=<nil> " {
		k += fmt.Sprintf("id=%x", id.Interface())
	}
	return k
}

// hasTwice says whether a request names something twice.
func hasTwice(req any) bool {
	c := deepCopy(reflect.ValueOf(req))
	unique(c)
	return !reflect.DeepEqual(c.Interface(), req)
}
