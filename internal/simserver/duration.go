package simserver

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that JSON writes as a string ("1.5s"). Negative ones are refused when read.
type Duration time.Duration

// MarshalJSON writes the duration as Go prints it.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a string such as "0.2ms". A bare number is refused: its unit would be a guess.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s is not a duration: write it as a string with a unit, such as \"5ms\"", clip(string(data), 40))
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write a number and a unit, such as \"5ms\"", clip(text, 40))
	}
	if v < 0 {
		return fmt.Errorf("%q is negative", text)
	}
	*d = Duration(v)
	return nil
}

// clip shortens foreign text for a message.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}
