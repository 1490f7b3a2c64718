// Console answers people and their command lines.
package main

import "github.com/spotferry/spotferry/services/internal/programs"

func main() { programs.Main("console") }
