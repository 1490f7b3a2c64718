package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spotferry/spotferry/services/internal/rehearse"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// rehearsalReport is what rehearse -o json prints.
type rehearsalReport struct {
	File      string                `json:"file"`
	Job       string                `json:"job"`
	Verdict   rehearse.Verdict      `json:"verdict"`
	Moves     []rehearse.Resumption `json:"moves"`
	Tolerance float64               `json:"tolerance"`
	Figures   rehearse.Figures      `json:"figures"`
	Machine   rehearse.Machine      `json:"machine"`
	TookMS    int64                 `json:"took_ms"`
	Saved     string                `json:"saved,omitempty"` // the file of the record
}

// report judges what was seen, keeps the figures, prints, and says by its error
// what the command exits with.
func (r *rehearsal) report(seen rehearse.Run, key string) error {
	out := rehearsalReport{
		File: r.file, Job: seen.Name, Verdict: rehearse.Judge(seen), Moves: rehearse.Resumptions(seen), Tolerance: r.tolerance,
		Figures: rehearse.Measure(seen), Machine: rehearse.ThisMachine(runtime.NumCPU()), TookMS: seen.Ended.Sub(seen.Began).Milliseconds(),
	}
	out.Machine.GPUs = seen.GPUs()
	r.keep(&out, key)
	if err := r.e.show(view{doc: out, names: []string{string(out.Verdict.Kind)}, page: out.write}); err != nil {
		return err
	}
	return out.verdict()
}

// keep writes the record. That it cannot be kept is no fault of the job.
func (r *rehearsal) keep(out *rehearsalReport, key string) {
	if r.noSave {
		return
	}
	path := either(r.save, rehearse.Beside(r.file))
	record := rehearse.Record{At: r.e.now().UTC(), Version: r.e.version, Job: out.Job, Key: key, Machine: out.Machine, Verdict: out.Verdict.Kind, Figures: out.Figures}
	if err := record.Save(path); err != nil {
		r.e.term.Note("the figures are not kept: %s; name another place with --save", terminal.Safe(err.Error()))
		return
	}
	out.Saved = path
}

// verdict is nil if the job resumes rightly. What is wrong has been printed.
func (o rehearsalReport) verdict() error {
	switch {
	case o.Verdict.Kind == rehearse.Resumes:
		return nil
	case o.Verdict.Open():
		return &failure{exit: exitUnfinished}
	}
	return &failure{exit: exitFailed}
}

func (o rehearsalReport) write(p *page) {
	v := o.Verdict
	p.head("Rehearsal of %s, %s on this machine", o.Job, ms(o.TookMS))
	p.field("verdict", "%s", v.Title)
	list := func(name string, lines []string) {
		for _, l := range lines {
			if l == "" {
				continue
			}
			p.field(name, "%s", upper(l))
			name = ""
		}
	}
	list("seen", v.Saw)
	list("matters", []string{v.Matters})
	list("to change", v.Change)
	list("besides", v.Remarks)
	if len(v.Lines) > 0 {
		p.head("Its last lines")
		for _, l := range v.Lines {
			p.line("  | %s", l)
		}
	}
	p.head("Measured on %s", o.Machine)
	o.writeFigures(p)
	if o.Saved != "" {
		p.line("")
		p.line("kept in %s: 'spotferry plan %s' takes these figures", o.Saved, shellWord(o.File))
	}
}

func (o rehearsalReport) writeFigures(p *page) {
	f := o.Figures
	none := "not measured"
	if f.StepsPerS != nil {
		p.field("steps", "%.3g a second, %.4g ms each", *f.StepsPerS, *f.StepMS)
	} else {
		p.field("steps", "%s: it told too few", none)
	}
	p.field("memory", "%s", orElse(f.PeakBytes, size, none)+labelled(" at most; GPU ", mib(f.GPUPeakMiB)))
	if f.CheckpointBytes != nil {
		every := ""
		if f.SaveSteps != nil {
			every = fmt.Sprintf(", every %d steps", *f.SaveSteps)
		}
		p.field("checkpoint", "%s in %s%s", size(*f.CheckpointBytes), count(*f.CheckpointFiles, "file"), every)
	} else {
		p.field("checkpoint", "%s", none)
	}
	if f.SaveWriteMS != nil {
		p.field("save", "training stands still for %s; written in %s, stored in %s", orElse(f.SavePauseMS, ms, "an unknown time"), ms(*f.SaveWriteMS), orElse(f.UploadMS, ms, none))
	} else {
		p.field("save", "%s", none)
	}
	if f.SetupMS != nil {
		p.field("start", "setup %s, of it inputs %s; first step %s after the script's start", ms(*f.SetupMS), orElse(f.InputsMS, ms, none), orElse(f.FirstStepMS, ms, none))
	} else {
		p.field("start", "%s", none)
	}
	if f.RestoreMS != nil {
		p.field("resume", "restore %s; first step %s after the script's start", ms(*f.RestoreMS), orElse(f.ResumeStepMS, ms, none))
	} else {
		p.field("resume", "%s", none)
	}
}

func orElse(n *int64, say func(int64) string, otherwise string) string {
	if n == nil {
		return otherwise
	}
	return say(*n)
}

func mib(n *int64) string {
	if n == nil {
		return ""
	}
	return size(*n << 20)
}

// upper begins a sentence.
func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
