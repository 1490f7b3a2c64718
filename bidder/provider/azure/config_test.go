package azure

import (
	"strings"
	"testing"
)

func TestAConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for field, spoil := range map[string]func(*Config){
		"Subscription":  func(c *Config) { c.Subscription = "mine" },
		"ResourceGroup": func(c *Config) { c.ResourceGroup = "a/b" },
		"Mark":          func(c *Config) { c.Mark = "" },
		"Regions":       func(c *Config) { c.Regions = []string{"east us'"} },
		"Image":         func(c *Config) { c.Image = "ubuntu" },
		"Subnet":        func(c *Config) { c.Subnet = "" },
		"SSHKey":        func(c *Config) { c.SSHKey = "" },
		"DiskGB":        func(c *Config) { c.DiskGB = -1 },
		"Endpoint":      func(c *Config) { c.Endpoint = "https://user:secret@host" },
		"Prices":        func(c *Config) { c.Prices = "ftp://host" },
		"Credential":    func(c *Config) { c.Credential = nil },
		"Now":           func(c *Config) { c.Now = nil },
	} {
		cfg := config(t, "http://127.0.0.1:1")
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&cfg)
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want it named, and no secret", field, err)
		}
	}
}
