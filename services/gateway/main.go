// Gateway lets agents in, and makes true what they report.
package main

import "github.com/spotferry/spotferry/services/internal/programs"

func main() { programs.Main("gateway", google(), azures()) }
