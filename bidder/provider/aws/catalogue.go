package aws

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Listed is one line of a price list.
type Listed struct{ Region, InstanceType string }

// ListPrice is an on-demand price and since when it holds; zero is not known.
type ListPrice struct {
	Price events.PerInstanceHour
	Since time.Time
}

// Catalogue is the seller's on-demand prices, which EC2 itself does not tell.
type Catalogue map[Listed]ListPrice

// disclaimer is how many lines stand above the header of a bulk price file.
const disclaimer = 5

// ReadCatalogueFile reads a bulk price file of AmazonEC2 in CSV, of one region or more.
func ReadCatalogueFile(path string) (Catalogue, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("on-demand prices: %w", err)
	}
	defer f.Close()
	c, err := ReadCatalogue(f)
	if err != nil {
		return nil, fmt.Errorf("on-demand prices in %s: %w", path, err)
	}
	return c, nil
}

// wanted is what a line of a bulk price file has to say to be the price of a
// shared Linux machine with nothing installed and nothing reserved.
var wanted = map[string]string{
	"TermType": "OnDemand", "Tenancy": "Shared", "Operating System": "Linux", "CapacityStatus": "Used",
	"Unit": "Hrs", "Pre Installed S/W": "NA", "Currency": "USD",
}

// ReadCatalogue reads a bulk price file: five lines that disclaim, a header, and a
// line for every price of every product. Lines that are of something else, or
// whose price cannot be read, are left out.
func ReadCatalogue(r io.Reader) (Catalogue, error) {
	lines := bufio.NewReaderSize(r, 1<<16)
	for range disclaimer {
		if _, err := lines.ReadString('\n'); err != nil {
			return nil, fmt.Errorf("fewer than %d lines stand above the header: download the file again: %w", disclaimer, err)
		}
	}
	table := csv.NewReader(lines)
	table.ReuseRecord, table.FieldsPerRecord = true, -1
	header, err := table.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	at := map[string]int{}
	for n, name := range header {
		at[strings.TrimSpace(name)] = n
	}
	for _, name := range []string{"Instance Type", "Region Code", "PricePerUnit", "TermType", "Tenancy", "Operating System", "CapacityStatus", "Unit"} {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("no column %q: give the bulk price file of AmazonEC2 in CSV, unchanged", name)
		}
	}
	return readListed(table, at)
}

func readListed(table *csv.Reader, at map[string]int) (Catalogue, error) {
	out := Catalogue{}
	for {
		line, err := table.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		field := func(name string) string {
			if n, ok := at[name]; ok && n < len(line) {
				return line[n]
			}
			return ""
		}
		price, ok := listedPrice(field)
		if !ok {
			continue
		}
		since, _ := time.Parse(time.DateOnly, field("EffectiveDate"))
		key := Listed{strings.Clone(field("Region Code")), strings.Clone(field("Instance Type"))}
		if old, there := out[key]; !there || since.After(old.Since) {
			out[key] = ListPrice{price, since}
		}
	}
}

func listedPrice(field func(string) string) (events.PerInstanceHour, bool) {
	for name, want := range wanted {
		if got := field(name); got != want && (got != "" || name == "TermType" || name == "Tenancy") {
			return 0, false
		}
	}
	// The file has ten decimals, of which the last are zeros.
	text := field("PricePerUnit")
	if whole, frac, ok := strings.Cut(text, "."); ok && len(frac) > 9 {
		text = whole + "." + frac[:9] + strings.TrimRight(frac[9:], "0")
	}
	return readable(text)
}
