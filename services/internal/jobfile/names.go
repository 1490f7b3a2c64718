package jobfile

import (
	"unicode"
	"unicode/utf8"
)

const maxName = 128

// checkName says what is wrong with a name that people will read, or "". Ids are
// derived elsewhere, so dots, stars and spaces may stand in a name.
func checkName(s string) string {
	switch {
	case s == "":
		return "it is empty"
	case utf8.RuneCountInString(s) > maxName:
		return "it has more than 128 characters"
	}
	visible := false
	for _, c := range s {
		if c != ' ' && !unicode.IsPrint(c) {
			return "it has invisible characters"
		}
		visible = visible || c != ' '
	}
	if !visible {
		return "it has only spaces"
	}
	return ""
}

// turnsText says whether a character changes the direction in which text is
// shown, so that what is read is not what runs.
func turnsText(c rune) bool {
	return c >= 0x202A && c <= 0x202E || c >= 0x2066 && c <= 0x2069
}
