package bidder

import (
	"slices"

	"github.com/spotferry/spotferry/events"
)

// reference is the GPU that hours of work are told in: the first accelerator of
// the job whose hours are known, else the first by name that has hours at all.
func reference(spec events.JobSpec) string {
	for _, a := range spec.Resources.Accelerators {
		if _, ok := spec.Policy.Work.On(a.Model); ok {
			return a.Model
		}
	}
	models := make([]string, 0, len(spec.Policy.Work.HoursOnS))
	for m := range spec.Policy.Work.HoursOnS {
		models = append(models, m)
	}
	if len(models) == 0 {
		return "*"
	}
	return slices.Min(models)
}

// WorkOf returns the market hours that all of a job's work takes on its reference GPU, or false.
func WorkOf(spec events.JobSpec) (float64, bool) {
	d, ok := spec.Policy.Work.On(reference(spec))
	return d.Hours(), ok && d > 0
}

// speedOf returns how fast a machine does this job, the reference GPU at its
// norm being 1. It is unknown only when the hours of other GPUs are known and
// those of this one are not: a job that says nothing is taken to run equally
// fast on everything it accepts.
func (v *view) speedOf(model string, pct int) (float64, bool) {
	norm := 1.0
	if pct > 0 {
		norm = float64(pct) / 100
	}
	if !v.known {
		return norm, true
	}
	here, ok := v.Spec.Policy.Work.On(model)
	if !ok || here <= 0 {
		return 0, false
	}
	return norm * v.whole / here.Hours(), true
}
