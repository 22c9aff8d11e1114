package kafka

import (
	"fmt"
	"reflect"
	"unicode/utf8"
)

// textBytesMax is the longest string of the protocol. Flexible versions could
// carry longer ones (KIP-482); Kafka refuses them, and what is kept of a request
// goes to formats that cannot hold them.
const textBytesMax = 1<<15 - 1

// checkTexts refuses a request with a string that is longer. A request that is no
// longer itself has none.
func checkTexts(body any, payloadBytes int) error {
	if payloadBytes <= textBytesMax {
		return nil
	}
	return eachText(reflect.ValueOf(body).Elem(), func(v reflect.Value) error {
		if n := v.Len(); n > textBytesMax {
			return fmt.Errorf("a string of %d bytes, at most %d are allowed", n, textBytesMax)
		}
		return nil
	})
}

// elementsMax bounds the elements of all arrays of a request: a byte each is enough
// to send them, and each is answered with a hundred.
const elementsMax = 500_000

// checkElements refuses a request with more. One of fewer bytes has none.
func checkElements(body any, payloadBytes int) error {
	if payloadBytes <= elementsMax {
		return nil
	}
	if n := elements(reflect.ValueOf(body).Elem()); n > elementsMax {
		return fmt.Errorf("arrays of more than %d elements", elementsMax)
	}
	return nil
}

// elements counts, and stops beyond elementsMax. Bytes are none.
func elements(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			n += elements(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return 0
		}
		n = v.Len()
		for i := 0; i < v.Len() && n <= elementsMax && v.Type().Elem().Kind() == reflect.Struct; i++ {
			n += elements(v.Index(i))
		}
	}
	return n
}

// quotedGrowth is how much longer a text can be than the request that it quotes: %q
// makes four bytes of one that cannot be printed, and the rest of a text is less than
// twice of that.
const quotedGrowth = 8

// cutTexts shortens the texts of an answer that quote a long request.
func cutTexts(resp any) {
	// The function gives no error.
	_ = eachText(reflect.ValueOf(resp).Elem(), func(v reflect.Value) error {
		v.SetString(v.String()[:textEnd(v.String())])
		return nil
	})
}

// textEnd is where a text is cut, between two characters.
func textEnd(s string) int {
	n := min(len(s), textBytesMax)
	for n < len(s) && n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// eachText calls fn for every string below v, until fn returns an error.
func eachText(v reflect.Value, fn func(reflect.Value) error) error {
	switch v.Kind() {
	case reflect.String:
		return fn(v)
	case reflect.Pointer:
		if !v.IsNil() {
			return eachText(v.Elem(), fn)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := eachText(v.Field(i), fn); err != nil {
				return err
			}
		}
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Pointer, reflect.Struct:
			for i := range v.Len() {
				if err := eachText(v.Index(i), fn); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
