package checkpoint

// Config returns what an engine was made of.
func (e *Engine) Config() Config { return e.cfg }

// KeepsTime is keepsTime.
var KeepsTime = keepsTime
