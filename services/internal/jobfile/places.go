package jobfile

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/events"
)

var placeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// readInfra reads seller[/region[/zone]], where * is any.
func (r *reader) readInfra(path string, n *yaml.Node) {
	p, ok := r.infra(path, n)
	if !ok {
		return
	}
	for _, old := range []string{"cloud", "region", "zone"} {
		if at, both := r.at["resources."+old]; both {
			r.refuse(at, "resources."+old, "keep infra", "infra and %s both say where", old)
			return
		}
	}
	r.base = p
}

func (r *reader) infra(path string, n *yaml.Node) (events.Place, bool) {
	s, ok := r.text(path, n)
	if !ok {
		return events.Place{}, false
	}
	if seller, _, _ := strings.Cut(s, "/"); r.clustered(path, n, seller) {
		return events.Place{}, false
	}
	parts := strings.Split(s, "/")
	if len(parts) > 3 {
		r.refuse(placeOf(n), path, "write seller, seller/region or seller/region/zone, with * for any", "infra is %s", quoted(s))
		return events.Place{}, false
	}
	var p events.Place
	into := []*string{&p.Seller, &p.Region, &p.Zone}
	for i, part := range parts {
		if part == "*" {
			continue
		}
		if !placeName.MatchString(part) {
			r.refuse(placeOf(n), path, "write seller, seller/region or seller/region/zone, with * for any", "infra is %s", quoted(s))
			return events.Place{}, false
		}
		*into[i] = part
	}
	p.Seller = strings.ToLower(p.Seller)
	return p, true
}

// clustered refuses what is not bought from a seller.
func (r *reader) clustered(path string, n *yaml.Node, seller string) bool {
	switch strings.ToLower(seller) {
	case "k8s", "kubernetes", "ssh", "slurm":
		r.refuse(placeOf(n), path, "name a seller, or leave it out for any", "%s is a cluster that is yours; machines are bought from sellers here", quoted(seller))
		return true
	}
	return false
}

// placePart reads the older cloud, region and zone.
func placePart(into func(*events.Place) *string) func(*reader, string, *yaml.Node) {
	return func(r *reader, path string, n *yaml.Node) {
		if _, both := r.at["resources.infra"]; both {
			r.refuse(placeOf(n), path, "keep infra", "infra and %s both say where", leaf(path))
			return
		}
		r.placePart(path, n, into(&r.base))
	}
}

func (r *reader) placePart(path string, n *yaml.Node, into *string) bool {
	s, ok := r.text(path, n)
	if !ok {
		return false
	}
	isSeller := leaf(path) == "cloud"
	switch {
	case s == "*":
		return true
	case isSeller && r.clustered(path, n, s):
		return false
	case !placeName.MatchString(s):
		r.refuse(placeOf(n), path, "write its name, or leave it out for any", "%s is %s", path, quoted(s))
		return false
	}
	if isSeller {
		s = strings.ToLower(s)
	}
	*into = s
	return true
}

func (r *reader) readAnyOf(path string, n *yaml.Node) {
	if _, both := r.at["resources.ordered"]; both && leaf(path) == "any_of" {
		r.refuse(placeOf(n), path, "keep any_of", "any_of and ordered both list alternatives")
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.refuse(placeOf(n), path, "write a list, each item with accelerators or infra", "%s is %s", path, kindOf(n))
		return
	}
	for _, item := range r.items(n) {
		if v, ok := r.variant(path, item); ok {
			r.variants = append(r.variants, v)
		}
	}
}

func (r *reader) readOrdered(path string, n *yaml.Node) {
	if _, both := r.at["resources.any_of"]; both {
		r.refuse(placeOf(n), path, "keep any_of", "any_of and ordered both list alternatives")
		return
	}
	r.note(placeOf(n), path, "the order of alternatives is no preference: the one that is cheapest to finish on is taken")
	r.readAnyOf(path, n)
}

// variant is one alternative: what it says replaces what resources says.
type variant struct {
	at           place
	accelerators []events.Accelerator
	place        events.Place
	placed       bool
}

func (r *reader) variant(path string, n *yaml.Node) (variant, bool) {
	v := variant{at: placeOf(n)}
	if n.Kind != yaml.MappingNode {
		r.refuse(placeOf(n), path, "write keys such as accelerators or infra", "an item of %s is %s", path, kindOf(n))
		return v, false
	}
	good := true
	for _, p := range r.pairs(path, n) {
		if asksNothing(p.val) {
			continue
		}
		full, ok := join(path, printable(p.name)), true
		switch p.name {
		case "accelerators":
			v.accelerators = r.accelerators(full, p.val)
			ok = len(v.accelerators) > 0
		case "infra":
			v.place, ok = r.infra(full, p.val)
			v.placed = true
		case "cloud":
			ok, v.placed = r.placePart(full, p.val, &v.place.Seller), true
		case "region":
			ok, v.placed = r.placePart(full, p.val, &v.place.Region), true
		case "zone":
			ok, v.placed = r.placePart(full, p.val, &v.place.Zone), true
		default:
			r.refuse(placeOf(p.key), full, "write one job file for each, or say it once for all in resources", "alternatives can differ in accelerators and in place, not in %s", quoted(p.name))
			ok = false
		}
		good = good && ok
	}
	return v, good
}

// alternatives turns the base and its variants into any-of lists of models and
// of places. The lists mean every pair, so variants must list every pair too.
func (r *reader) alternatives() {
	res := &r.job.Spec.Resources
	if len(r.variants) == 0 {
		if r.base != (events.Place{}) {
			res.Places = []events.Place{r.base}
		}
		return
	}
	type combination struct {
		a events.Accelerator
		p events.Place
	}
	var models []events.Accelerator
	var places []events.Place
	pairs := map[combination]bool{}
	for _, v := range r.variants {
		as, p := v.accelerators, v.place
		if len(as) == 0 {
			as = res.Accelerators
		}
		if len(as) == 0 {
			as = []events.Accelerator{{}}
		}
		if !v.placed {
			p = r.base
		}
		if !slices.Contains(places, p) {
			places = append(places, p)
		}
		for _, a := range as {
			if !slices.Contains(models, a) {
				models = append(models, a)
			}
			pairs[combination{a, p}] = true
		}
	}
	if len(pairs) != len(models)*len(places) {
		r.refuse(r.variants[0].at, "resources.any_of", "list the same accelerators for every place, or write one job file for each",
			"these alternatives tie accelerators to places; only every accelerator at every place can be asked for")
		return
	}
	res.Accelerators, res.Places = named(models), somewhere(places)
}

// named is the models; one that is any machine makes all of them any.
func named(models []events.Accelerator) []events.Accelerator {
	if slices.Contains(models, events.Accelerator{}) {
		return nil
	}
	return models
}

// somewhere is the places; one that is anywhere makes all of them anywhere.
func somewhere(places []events.Place) []events.Place {
	if slices.Contains(places, events.Place{}) {
		return nil
	}
	return places
}
