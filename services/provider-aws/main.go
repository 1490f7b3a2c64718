// Provider-aws sells EC2 instances, and is the only program with the account's
// keys: it finds them where AWS's own tools do, in AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, the profile AWS_PROFILE names, or the machine's role.
package main

import "github.com/spotferry/spotferry/services/internal/programs"

func main() {
	programs.MainSeller(programs.Seller{Name: "provider-aws", Purpose: "sells EC2 instances", Flags: flags})
}
