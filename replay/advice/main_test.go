package advice_test

import (
	"fmt"
	"os"
	"testing"
)

// runIn runs the tests with a folder for the profile.
func runIn(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "advice-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}
