package plane

import (
	"context"

	"github.com/spotferry/spotferry/services/internal/console"
)

func (p *Plane) plan(context.Context, console.SubmitRequest) (console.Plan, error) {
	return console.Plan{}, nil
}
