package aws

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTheBulkPriceFileIsReadForWhatItIs(t *testing.T) {
	t.Parallel()
	head := strings.Repeat("\"line\",\"that disclaims\"\n", 5) +
		`"SKU","TermType","EffectiveDate","Unit","PricePerUnit","Currency","Instance Type","Tenancy","Operating System","Region Code","CapacityStatus","Pre Installed S/W"` + "\n"
	line := func(price, kind string) string {
		return `"A","OnDemand","2026-11-01","Hrs","` + price + `","USD","` + kind + `","Shared","Linux","us-east-1","Used","NA"` + "\n"
	}
	c, err := ReadCatalogue(strings.NewReader(head + line("3.0600000000", "p3.2xlarge") + line("0.0000000000", "free") + line("N/A", "unknown") +
		line("0.0000000001", "too-fine") + strings.ReplaceAll(line("9.0000000000", "p3.2xlarge"), "Linux", "Windows") +
		strings.ReplaceAll(line("0.5000000000", "p3.2xlarge"), "OnDemand", "Reserved") + strings.ReplaceAll(line("4.0000000000", "cny"), "USD", "CNY") + "\"short\"\n"))
	want := ListPrice{3_060_000_000, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	if err != nil || len(c) != 1 || c[Listed{"us-east-1", "p3.2xlarge"}] != want {
		t.Errorf("catalogue %v, %v; want one price, %v", c, err, want)
	}
	for name, file := range map[string]string{
		"empty": "", "no header": strings.Repeat("x\n", 5), "a page in place of it": strings.Repeat("<html>\n", 9),
		"quotes that do not close": head + "\"A\",\"OnDemand",
	} {
		if c, err := ReadCatalogue(strings.NewReader(file)); err == nil {
			t.Errorf("%s: read as %v", name, c)
		}
	}
	if _, err := ReadCatalogueFile("no/such/file.csv"); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestARecordedPriceHistoryIsRead(t *testing.T) {
	const file = "../../../../shared/recorded/aws-describe-spot-price-history.xml"
	recorded, err := os.ReadFile(file)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("the recorded answers do not lie beside this checkout: %v", err)
	}
	c, _ := hostile(t, map[string]func(http.ResponseWriter){"DescribeSpotPriceHistory": text(string(recorded))})
	z := zones{nameOf: map[string]string{}, idOf: map[string]string{}}
	for id, name := range map[string]string{"usw2-az1": "us-west-2a", "usw2-az2": "us-west-2b", "usw2-az3": "us-west-2c"} {
		z.nameOf[id], z.idOf[name] = name, id
	}
	rows, err := c.regions[0].askPrices(t.Context(), z, nil, time.Now())
	if err != nil || len(rows) != 14 {
		t.Fatalf("%d rows, %v; want the 14 of plain Linux", len(rows), err)
	}
	newest := map[place]string{}
	for _, r := range rows {
		if _, there := newest[r.place]; !there {
			newest[r.place] = r.text
		}
	}
	for p, want := range map[place]string{
		{"m1.small", "usw2-az2"}: "0.010000", {"m1.small", "usw2-az3"}: "0.025000", {"t1.micro", "usw2-az1"}: "0.004000",
		{"cc2.8xlarge", "usw2-az3"}: "0.253000", {"c1.xlarge", "usw2-az2"}: "0.112000", {"m1.large", "usw2-az3"}: "0.042000",
	} {
		if newest[p] != want {
			t.Errorf("%v costs %s, want %s", p, newest[p], want)
		}
	}
	if price, ok := readable("0.010000"); !ok || price != 10_000_000 {
		t.Errorf("a cent is %d nano-dollars", price)
	}
}
