package remoting

import (
	"strconv"
	"strings"
)

// Field is one entry of a header's extFields.
type Field struct{ Key, Value string }

// Fields are a header's extFields in the order they came. When a key occurs
// more than once the last entry counts, as in a Java map.
type Fields []Field

// Get returns a field's value and whether it is there.
func (f Fields) Get(key string) (string, bool) {
	for i := len(f) - 1; i >= 0; i-- {
		if f[i].Key == key {
			return f[i].Value, true
		}
	}
	return "", false
}

// Value returns a field's value, "" when it is absent.
func (f Fields) Value(key string) string {
	v, _ := f.Get(key)
	return v
}

// Set gives a field a value, at its place when it is there already.
func (f *Fields) Set(key, value string) {
	for i := len(*f) - 1; i >= 0; i-- {
		if (*f)[i].Key == key {
			(*f)[i].Value = value
			return
		}
	}
	*f = append(*f, Field{key, value})
}

// SetInt gives a field a decimal value.
func (f *Fields) SetInt(key string, value int64) { f.Set(key, strconv.FormatInt(value, 10)) }

// Require returns the value of a field that must be there and not be empty.
// The error is a [*FieldError].
func (f Fields) Require(key string) (string, error) {
	if v, _ := f.Get(key); v != "" {
		return v, nil
	}
	return "", &FieldError{Key: key, Want: "a value", Reason: ErrFieldMissing}
}

// Int32 returns a field as a 32-bit integer. The error is a [*FieldError].
func (f Fields) Int32(key string) (int32, error) {
	v, ok := f.Get(key)
	if !ok {
		return 0, &FieldError{Key: key, Want: want32, Reason: ErrFieldMissing}
	}
	return parseInt32(key, v)
}

// Int32Or is Int32 with a value for a field that is absent or empty.
func (f Fields) Int32Or(key string, absent int32) (int32, error) {
	v, _ := f.Get(key)
	if v == "" {
		return absent, nil
	}
	return parseInt32(key, v)
}

// Int64 returns a field as a 64-bit integer. The error is a [*FieldError].
func (f Fields) Int64(key string) (int64, error) {
	v, ok := f.Get(key)
	if !ok {
		return 0, &FieldError{Key: key, Want: want64, Reason: ErrFieldMissing}
	}
	return parseInt64(key, v)
}

// Int64Or is Int64 with a value for a field that is absent or empty.
func (f Fields) Int64Or(key string, absent int64) (int64, error) {
	v, _ := f.Get(key)
	if v == "" {
		return absent, nil
	}
	return parseInt64(key, v)
}

// Bool returns a field as true or false, in any case of letters. The error is
// a [*FieldError].
func (f Fields) Bool(key string) (bool, error) {
	v, ok := f.Get(key)
	if !ok {
		return false, &FieldError{Key: key, Want: wantBool, Reason: ErrFieldMissing}
	}
	return parseBool(key, v)
}

// BoolOr is Bool with a value for a field that is absent or empty.
func (f Fields) BoolOr(key string, absent bool) (bool, error) {
	v, _ := f.Get(key)
	if v == "" {
		return absent, nil
	}
	return parseBool(key, v)
}

const (
	want32   = "a 32-bit integer"
	want64   = "a 64-bit integer"
	wantBool = "true or false"
)

func parseInt32(key, v string) (int32, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return 0, &FieldError{Key: key, Value: strings.Clone(v), Want: want32, Reason: ErrFieldInvalid}
	}
	return int32(n), nil
}

func parseInt64(key, v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, &FieldError{Key: key, Value: strings.Clone(v), Want: want64, Reason: ErrFieldInvalid}
	}
	return n, nil
}

func parseBool(key, v string) (bool, error) {
	switch {
	case v == "true" || strings.EqualFold(v, "true"):
		return true, nil
	case v == "false" || strings.EqualFold(v, "false"):
		return false, nil
	}
	return false, &FieldError{Key: key, Value: strings.Clone(v), Want: wantBool, Reason: ErrFieldInvalid}
}
