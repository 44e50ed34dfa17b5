package interop

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// sharedAddr is the name server's address of the broker that all cases share
// which do not stop it.
var sharedAddr string

func TestMain(m *testing.M) {
	rlog.SetLogLevel("fatal")
	if len(os.Args) > 1 && os.Args[1] == memberCommand {
		runMember(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	os.Exit(run(m))
}

// run is a function of its own so that its cleanup comes before the exit.
func run(m *testing.M) (status int) {
	if foreign != "" {
		sharedAddr = foreign
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "broker-shared-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	b, err := newBroker(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	sharedAddr = b.addr
	defer func() {
		if err := b.end(syscall.SIGTERM); err != nil {
			fmt.Fprintf(os.Stderr, "FAIL: the shared broker after SIGTERM: %v\n%s", err, b.logTail())
			status = 1
		}
		if status == 0 {
			os.RemoveAll(dir)
		}
	}()
	return m.Run()
}
