package jobfile

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
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
	whole        bool // place says it all: nothing of what resources says about where is left
	spot         *bool
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
			v.whole = true
		case "cloud":
			ok = r.placePart(full, p.val, &v.place.Seller)
		case "region":
			ok = r.placePart(full, p.val, &v.place.Region)
		case "zone":
			ok = r.placePart(full, p.val, &v.place.Zone)
		case "use_spot":
			var spot bool
			spot, ok = r.yesNo(full, p.val)
			v.spot = &spot
		default:
			r.refuse(placeOf(p.key), full, "write one job file for each, or say it once for all in resources", "alternatives can differ in accelerators, in place and in use_spot, not in %s", quoted(p.name))
			ok = false
		}
		good = good && ok
	}
	return v, good
}

// alternatives turns the base and its variants into any-of lists of models, of
// places and of capacity. The lists mean every combination, so variants must
// list every one too.
func (r *reader) alternatives() {
	res := &r.job.Spec.Resources
	if len(r.variants) == 0 {
		if r.base != (events.Place{}) {
			res.Places = []events.Place{r.base}
		}
		return
	}
	type combination struct {
		a    events.Accelerator
		p    events.Place
		spot string
	}
	var models []events.Accelerator
	var places []events.Place
	var spots []string
	asked := map[combination]bool{}
	for _, v := range r.variants {
		p, spot := v.within(r.base), orUnsaid(v.spot, r.useSpot)
		places, spots = with(places, p), with(spots, spot)
		for _, a := range v.models(res.Accelerators) {
			models = with(models, a)
			asked[combination{a, p, spot}] = true
		}
	}
	if len(asked) != len(models)*len(places)*len(spots) {
		r.refuse(r.variants[0].at, "resources.any_of", "list the same accelerators, and use_spot alike, for every place, or write one job file for each",
			"these alternatives tie accelerators, places or use_spot to each other; only every combination of them can be asked for")
		return
	}
	res.Accelerators, res.Places = named(models), somewhere(places)
	r.useSpot = nil // several: whichever pays, which is what auto means
	if len(spots) == 1 && spots[0] != unsaid {
		spot := spots[0] == "true"
		r.useSpot = &spot
	}
}

func (v variant) within(base events.Place) events.Place {
	p := v.place
	if !v.whole {
		p.Seller, p.Region, p.Zone = cmp.Or(p.Seller, base.Seller), cmp.Or(p.Region, base.Region), cmp.Or(p.Zone, base.Zone)
	}
	return p
}

// models is what a variant says, or else what resources says, or else any.
func (v variant) models(base []events.Accelerator) []events.Accelerator {
	switch {
	case len(v.accelerators) > 0:
		return v.accelerators
	case len(base) > 0:
		return base
	}
	return []events.Accelerator{{}}
}

const unsaid = "unsaid"

func orUnsaid(own, base *bool) string {
	switch {
	case own != nil:
		return strconv.FormatBool(*own)
	case base != nil:
		return strconv.FormatBool(*base)
	}
	return unsaid
}

func with[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
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
