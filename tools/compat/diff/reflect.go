package main

import (
	"reflect"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var tagsType = reflect.TypeFor[kmsg.Tags]()

// copyRequest copies a request with all that hangs on it.
func copyRequest(r kmsg.Request) kmsg.Request {
	return deepCopy(reflect.ValueOf(r)).Interface().(kmsg.Request)
}

func deepCopy(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(deepCopy(v.Elem()))
		return c
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			c.Index(i).Set(deepCopy(v.Index(i)))
		}
		return c
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		if v.Type() == tagsType {
			return c
		}
		for i := range v.NumField() {
			c.Field(i).Set(deepCopy(v.Field(i)))
		}
		return c
	}
	return v
}

// place is one field of a message.
type place struct {
	path  string // e.g. Topics[0].Partitions[1].Records
	field string // name of the last field
	v     reflect.Value
}

// places lists every field of a message in wire order, containers before their
// contents; the version and tags are left out.
func places(m any) []place {
	var all []place
	v := reflect.ValueOf(m).Elem()
	eachPlace(v, "", "", func(p place) { all = append(all, p) })
	return all
}

func eachPlace(v reflect.Value, path, field string, fn func(place)) {
	if v.Type() == tagsType {
		return
	}
	if path != "" {
		fn(place{path, field, v})
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path == "" && name == "Version" {
				continue
			}
			sub := name
			if path != "" {
				sub = path + "." + name
			}
			eachPlace(v.Field(i), sub, name, fn)
		}
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			eachPlace(v.Elem(), path, field, fn)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			eachPlace(v.Index(i), path+"["+strconv.Itoa(i)+"]", field, fn)
		}
	}
}

// find returns the place at a path.
func find(m any, path string) (place, bool) {
	for _, p := range places(m) {
		if p.path == path {
			return p, true
		}
	}
	return place{}, false
}
