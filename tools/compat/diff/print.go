package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeStep prints a request readably: fields that are not zero, placeholders
// by what they stand for.
func describeStep(st *Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d conn %d: %s v%d", st.ID, st.Conn, kmsg.NameForKey(st.Req.Key()), st.Req.GetVersion())
	if st.Later {
		b.WriteString(" (answer later)")
	}
	describe(&b, reflect.ValueOf(st.Req).Elem(), true)
	for _, m := range st.Mutations {
		fmt.Fprintf(&b, " <%v>", m)
	}
	return b.String()
}

func describe(b *strings.Builder, v reflect.Value, top bool) {
	b.WriteByte('{')
	first := true
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if f.Type() == tagsType || top && name == "Version" || f.IsZero() && f.Kind() != reflect.Slice {
			continue
		}
		if !first {
			b.WriteByte(' ')
		}
		first = false
		b.WriteString(name + ":")
		describeValue(b, name, f)
	}
	b.WriteByte('}')
}

func describeValue(b *strings.Builder, name string, f reflect.Value) {
	switch x := f.Interface().(type) {
	case [16]byte:
		if topic, ok := topicOfID(x); ok {
			fmt.Fprintf(b, "id of %s", strings.TrimPrefix(topic, prefixToken))
			return
		}
		fmt.Fprintf(b, "%x", x)
		return
	case []byte:
		describeBytes(b, name, x)
		return
	case string:
		fmt.Fprintf(b, "%.60q", describeText(x))
		return
	case int64:
		if n := x - producerBase; n >= 0 && n < stepsMax {
			fmt.Fprintf(b, "producer of #%d", n)
			return
		}
	case int32:
		if n := x - sessionBase; n >= 0 && n < stepsMax {
			fmt.Fprintf(b, "session of #%d", n)
			return
		}
	}
	switch f.Kind() {
	case reflect.Pointer:
		if f.IsNil() {
			b.WriteString("null")
			return
		}
		describeValue(b, name, f.Elem())
	case reflect.Struct:
		describe(b, f, false)
	case reflect.Slice:
		if f.IsNil() {
			b.WriteString("null")
			return
		}
		b.WriteByte('[')
		for i := range f.Len() {
			if i > 0 {
				b.WriteByte(' ')
			}
			describeValue(b, name, f.Index(i))
		}
		b.WriteByte(']')
	default:
		if f.CanInt() {
			fmt.Fprint(b, f.Int())
			return
		}
		fmt.Fprint(b, f.Interface())
	}
}

func describeText(s string) string {
	if s == clusterMark {
		return "(cluster id)"
	}
	if rest, ok := strings.CutPrefix(s, memberMark); ok {
		return "(member of #" + rest + ")"
	}
	return strings.Replace(s, prefixToken, "~", 1)
}

// describeBytes prints record batches by their headers, other bytes as hex.
func describeBytes(b *strings.Builder, name string, x []byte) {
	if name != "Records" {
		fmt.Fprintf(b, "%.40x", x)
		return
	}
	if len(x) < batchHeaderLen {
		fmt.Fprintf(b, "(%d bytes)", len(x))
		return
	}
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(x); err != nil {
		fmt.Fprintf(b, "(%d bytes that are no batch: %.80x)", len(x), x)
		return
	}
	producer := fmt.Sprint(rb.ProducerID)
	if n := rb.ProducerID - producerBase; n >= 0 && n < stepsMax {
		producer = fmt.Sprintf("of #%d", n)
	}
	fmt.Fprintf(b, "(batch at %d+%d magic %d attributes %#x producer %s/%d/%d records %d times %d to %d length %d of %d, checksum right %v)",
		rb.FirstOffset, rb.LastOffsetDelta, rb.Magic, rb.Attributes, producer, rb.ProducerEpoch, rb.FirstSequence, rb.NumRecords,
		rb.FirstTimestamp, rb.MaxTimestamp, rb.Length, len(x)-12, uint32(rb.CRC) == castagnoli(x[batchAttrsAt:]))
}

// describeFinding prints a sequence up to its finding, with both answers.
func describeFinding(q *Sequence, f *finding) string {
	var b strings.Builder
	for _, t := range q.Topics {
		fmt.Fprintf(&b, "    topic %s with %d partitions %v\n", strings.Replace(t.Name, prefixToken, "~", 1), t.Partitions, t.Configs)
	}
	for i := range q.Steps {
		fmt.Fprintf(&b, "    %s\n", describeStep(&q.Steps[i]))
	}
	for i, name := range []string{"kafka", "millrace"} {
		fmt.Fprintf(&b, "    answer of %-9s %s\n", name+":", short(f.Outcomes[i].node().String(), 500))
	}
	for i, d := range f.Differences {
		if i == 6 {
			fmt.Fprintf(&b, "    and %d more\n", len(f.Differences)-i)
			break
		}
		fmt.Fprintf(&b, "    at #%d %s\n", q.Steps[f.Step].ID, d)
	}
	return strings.ReplaceAll(b.String(), prefixToken, "~")
}
