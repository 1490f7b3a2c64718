package framework

import (
	"strings"
	"testing"
)

func TestResumingSaysItInTheFrameworksWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, framework, run, says string }{
		{"Hugging Face's trainer", "hf", "python train.py", "trainer.train(resume_from_checkpoint="},
		{"LLaMA-Factory, whose checkpoints look the same", "hf", "llamafactory-cli train sft.yaml", "llamafactory-cli train CONFIG.yaml ${SPOTFERRY_RESUME_FROM:+"},
		{"Axolotl", "hf", "axolotl train lora.yaml", "auto_resume_from_checkpoints: true"},
		{"a trainer of the user's own", "plain", "python train.py", "load model, optimizer, scheduler and step"},
		{"nothing known", "", "./go", "load model, optimizer, scheduler and step"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := Resuming(tc.framework, tc.run)
			if !strings.Contains(got, tc.says) || !strings.Contains(got, "$SPOTFERRY_RESUME_FROM is the restored checkpoint's directory") || strings.HasPrefix(got, " ") {
				t.Errorf("Resuming(%q, %q) = %q", tc.framework, tc.run, got)
			}
		})
	}
}
