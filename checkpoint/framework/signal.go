package framework

import (
	"regexp"
)

// Signal implements Adapter. What can be seen of the script wins over what is
// usual for the framework.
func (a *adapter) Signal() (name, why string) {
	if a.layout.signal == nil {
		return "", a.layout.mute
	}
	return a.layout.signal(a)
}

// told are the files in which a framework keeps its own arguments, and what the
// one that matters here is called there.
var told = map[string]struct {
	file *regexp.Regexp
	key  string
}{
	"hf":       {regexp.MustCompile(`^training_args\.bin$`), "enable_jit_checkpoint"},
	"megatron": {regexp.MustCompile(`^common\.pt$|^mp_rank_[^/]+/model_optim_rng\.pt$`), "exit_signal_handler"},
}

// note keeps what a complete checkpoint says of the signal.
func (a *adapter) note(s *sight) {
	arguments, ok := told[a.layout.name]
	if !ok {
		return
	}
	files := s.files(arguments.file)
	if len(files) == 0 {
		return
	}
	n, ok := s.remembered(files[0], func() (int64, bool) { return pickled(pickle(s.root, files[0]), arguments.key) })
	if ok {
		on := n != 0
		a.mu.Lock()
		a.flag = &on
		a.mu.Unlock()
	}
}

// answers reports whether the trainer was told to save on its signal, and
// whether that is known: from a checkpoint or from the job's script.
func (a *adapter) answers(flag string) (on, known bool) {
	a.mu.Lock()
	saved := a.flag
	a.mu.Unlock()
	if saved != nil {
		return *saved, true
	}
	if regexp.MustCompile(`(?i)` + flag + `['"]?[\s=:]+['"]?(false|0|no)\b`).MatchString(a.cfg.Run) {
		return false, true
	}
	on = regexp.MustCompile(flag).MatchString(a.cfg.Run)
	return on, on
}
