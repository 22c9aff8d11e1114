package core

import "fmt"

// TopicNameBytesMax is the length of the longest topic name.
const TopicNameBytesMax = 249

// CheckTopicName says why a topic cannot have this name; "" if it can. The
// texts are Kafka's.
func CheckTopicName(name string) string {
	const prefix = "Topic name is invalid: "
	switch {
	case name == "":
		return prefix + "the empty string is not allowed"
	case name == "." || name == "..":
		return prefix + "'" + name + "' is not allowed"
	case len(name) > TopicNameBytesMax:
		return fmt.Sprintf(prefix+"the length of '%s' is longer than the max allowed length %d", name, TopicNameBytesMax)
	}
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			continue
		}
		return prefix + "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	}
	return ""
}
