// Package floors holds the test that imports only point down, so that the
// drawing of the architecture cannot go stale. It has no code of its own:
// drawing_test.go is the drawing, and floors_test.go holds the tree against it.
package floors
