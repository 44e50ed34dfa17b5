// Package sqlfilter compiles and evaluates the expressions by which consumers
// choose messages (expression type SQL92), over a message's properties:
//
//	e, err := sqlfilter.Parse("price BETWEEN 5 AND 10 AND region = 'eu'")
//	if err == nil && e.Match(view.Properties()) { … }
//
// # Language
//
// That of RocketMQ's rocketmq-filter 5.5.0 (SelectorParser.jj):
//
//	or         and { OR and }
//	and        equality { AND equality }
//	equality   comparison { = comparison | <> comparison | IS [NOT] NULL }
//	comparison unary { > unary | >= unary | < unary | <= unary |
//	             [NOT] BETWEEN unary AND unary | [NOT] IN ( text {, text} ) |
//	             [NOT] CONTAINS text | [NOT] STARTSWITH text | [NOT] ENDSWITH text }
//	unary      + unary | - unary | NOT unary | primary
//	primary    text | number | TRUE | FALSE | NULL | property | ( or )
//
// Keywords in any case of letters, names of properties as they are written; 'it”s' is a
// text, "--" begins a comment up to the line's end, "/*" one up to "*/". There
// is no LIKE. NOT binds tighter than comparisons: NOT (a = 1), not NOT a = 1.
//
// # Values
//
// A property is a text, or NULL when the message does not have it. Logic has
// three values: NULL AND FALSE is FALSE, NULL OR TRUE is TRUE, NOT NULL is
// NULL; only TRUE matches. Comparisons with NULL are NULL; IN of NULL is NULL,
// CONTAINS, STARTSWITH and ENDSWITH of NULL, and their NOT, are FALSE.
//
// A property that is compared with a number is read as one, two properties
// compared by <, <=, > or >= too; when it is none, the message does not match,
// whatever else the expression says. A property alone is FALSE when it is there.
//
// # Where it differs from RocketMQ
//
//   - Numbers are compared by their value. RocketMQ reads a property as what
//     the constant is, so that qty > 5 matches neither 5.5 nor 3000000000.
//   - What stands behind a complete expression is an error. RocketMQ passes
//     over it in silence: of "a = 1 b = 2" it sees a = 1 alone.
//   - TRUE = a compares as a = TRUE; RocketMQ fails on it for every message.
//   - 0.0 and 0e0 are numbers.
//   - Length and nesting are bounded: [MaxLength], [MaxDepth].
package sqlfilter
