// Watcher asks sellers for their offers and publishes what a buyer would notice.
package main

import "github.com/spotferry/spotferry/services/internal/programs"

func main() { programs.Main("watcher") }
