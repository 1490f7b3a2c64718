package terminal

// Style marks text. A Style that is off returns everything unchanged.
type Style struct{ on bool }

// Coloured is a Style that marks, for tests and for output whose reader is known.
func Coloured() Style { return Style{true} }

// On says whether anything is marked.
func (s Style) On() bool { return s.on }

func (s Style) wrap(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold is for headings.
func (s Style) Bold(text string) string { return s.wrap("1", text) }

// Dim is for what matters less.
func (s Style) Dim(text string) string { return s.wrap("2", text) }

// Good, Warn and Bad go with words that say the same.
func (s Style) Good(text string) string { return s.wrap("32", text) }

// Warn is for what asks for attention.
func (s Style) Warn(text string) string { return s.wrap("33", text) }

// Bad is for what went wrong.
func (s Style) Bad(text string) string { return s.wrap("31", text) }
