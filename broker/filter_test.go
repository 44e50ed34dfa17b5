package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemq/tidemq/internal/remoting"
)

// TestSQLFilter: pulls get what their expression matches, delivered messages
// and messages sent at once alike.
func TestSQLFilter(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s" })
	c := dial(t, b)
	c.createTopic("t", 1)
	c.send("t", 0, props("TAGS", "red", "qty", "5"), "a")
	c.send("t", 0, props("TAGS", "blue", "qty", "7"), "b")
	c.send("t", 0, "", "c")
	c.send("t", 0, props("DELAY", "1", "qty", "9", "region", "eu"), "d")
	c.pullAll("g", "t", 0, 4)
	for _, test := range []struct{ expression, want string }{
		{"qty > 5", "bd"},
		{"qty BETWEEN 1 AND 8", "ab"},
		{"TAGS IN ('red', 'green') OR region = 'eu'", "ad"},
		{"qty IS NULL", "c"},
		{"qty IS NOT NULL AND DELAY IS NULL", "abd"},
		{"qty > 100", ""},
	} {
		code := remoting.Success
		if test.want == "" {
			code = remoting.PullRetryImmediately
		}
		for _, header := range []byte{remoting.HeaderJSON, remoting.HeaderRocketMQ} {
			c.headerType = header
			resp := c.want(code, remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0, "expressionType", "SQL92", "subscription", test.expression), nil)
			got := ""
			for _, m := range records(t, resp) {
				got += string(m.Body)
			}
			if next := number64(t, resp, "nextBeginOffset"); got != test.want || next != 4 {
				t.Errorf("%q: got %q, next %d", test.expression, got, next)
			}
		}
	}
	c.headerType = remoting.HeaderJSON

	// Held, until something matches.
	answer := c.start(remoting.ReqPullMessage, pullFields("g", "t", 0, 4, 120_000, "expressionType", "SQL92", "subscription", "qty = 42"), nil)
	p := dial(t, b)
	for range 50 {
		p.send("t", 0, props("qty", "1"), "no")
	}
	p.send("t", 0, props("qty", "42"), "yes")
	resp := await(t, answer)
	if got := records(t, resp); len(got) != 1 || string(got[0].Body) != "yes" || number64(t, resp, "nextBeginOffset") != 55 {
		t.Errorf("held pull got %v", got)
	}
}

// TestSQLFilterFew: a match far behind is found without the client asking for
// every stretch between.
func TestSQLFilterFew(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.sendMany("t", 0, 500)
	c.send("t", 0, props("qty", "1"), "x")
	resp := c.ok(remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0, "expressionType", "SQL92", "subscription", "qty = 1"), nil)
	if got := records(t, resp); len(got) != 1 || got[0].QueueOffset != 500 {
		t.Errorf("got %v", got)
	}
}

// TestSQLFilterErrors: the codes by which clients learn that an expression
// cannot be used.
func TestSQLFilterErrors(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.send("t", 0, props("qty", "5"), "x")
	check := func(want int, kind, expression string) *remoting.Command {
		t.Helper()
		return c.want(want, remoting.ReqCheckClientConfig, nil, asJSON(t, map[string]any{"clientId": "c", "group": "g",
			"subscriptionData": map[string]any{"expressionType": kind, "subString": expression, "topic": "t"}}))
	}
	check(0, "TAG", "*")
	check(0, "", "a || b")
	check(0, "SQL92", "a > 1")
	if resp := check(remoting.SubscriptionParseFailed, "SQL92", "a >"); !strings.Contains(resp.Remark, "a >") {
		t.Errorf("remark %q", resp.Remark)
	}
	check(remoting.SubscriptionParseFailed, "XPATH", "/a")
	c.ok(remoting.ReqCheckClientConfig, nil, nil)

	pull := func(want int, more ...any) *remoting.Command {
		t.Helper()
		return c.want(want, remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0, append([]any{"expressionType", "SQL92"}, more...)...), nil)
	}
	for _, bad := range []string{"", "a >", "a LIKE 'x%'", strings.Repeat("(", 20000)} {
		pull(remoting.SubscriptionParseFailed, "subscription", bad)
	}
	pull(remoting.SubscriptionParseFailed, "subscription", "a = 1", "expressionType", "XPATH")

	// By heartbeat: a wrong one leaves the pulls without a filter (27), one that
	// is not there yet, or older than the pull, with none (24, 25).
	pull(remoting.SubscriptionNotExist, "sysFlag", 0)
	beat := func(expression string, version int) {
		t.Helper()
		c.ok(remoting.ReqHeartBeat, nil, fmt.Appendf(nil, `{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"topic":"t","subString":%q,"subVersion":%d,"expressionType":"SQL92"}]}]}`, expression, version))
	}
	beat("qty >", 1)
	pull(remoting.FilterDataNotExist, "sysFlag", 0)
	beat("qty > 5", 2)
	pull(remoting.PullRetryImmediately, "sysFlag", 0)
	pull(remoting.SubscriptionNotLatest, "sysFlag", 0, "subVersion", 3)
	pull(remoting.SubscriptionNotExist, "sysFlag", 0, "topic", "%RETRY%g")
	beat("qty >= 5", 3)
	if got := records(t, pull(remoting.Success, "sysFlag", 0, "subVersion", 3)); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if n := len(b.exprs.known); n == 0 || n > maxExpressions {
		t.Errorf("%d expressions kept", n)
	}
	for i := range 2 * maxExpressions {
		check(0, "SQL92", fmt.Sprintf("a = %d", i))
	}
	if n := len(b.exprs.known); n > maxExpressions {
		t.Errorf("%d expressions kept", n)
	}
}
