package run

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/replay/setting"
)

// checkOutliers checks the outliers against the trace.
func (p *plan) checkOutliers() error {
	selector, _, _ := strings.Cut(p.meta.Selector, ":")
	if p.opt.Outliers.Source == setting.OutliersUnlisted && selector != "shadowkv" {
		p.warn = append(p.warn, fmt.Sprintf("outliers %v: only shadowkv is known to keep blocks that no list names, the trace's selector is %q", p.opt.Outliers, p.meta.Selector))
	}
	if p.opt.Outliers.Source != setting.OutliersWindows {
		return nil
	}
	if selector == "shadowkv" {
		return fmt.Errorf("outliers %v: the trace was selected by ShadowKV, whose lists leave its own outliers out (unlisted:N counts their memory)", p.opt.Outliers)
	}
	for i := range p.streams {
		if s := p.selected(i); s.Windows == 0 {
			return fmt.Errorf("outliers %v need prompt windows (steps below 0), %v has none", p.opt.Outliers, s.Key)
		}
	}
	return nil
}
