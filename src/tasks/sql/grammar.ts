/**
 * GBNF of a SELECT for decoding in which the form cannot fail. It knows the words of SQL and no
 * name of any table, column or value; what is sampled under it can be read, is within the
 * statement's limits but where nearly every part is of its greatest length, and may still be wrong.
 */
export const SQL_GRAMMAR = String.raw`root ::= query ";"
query ::= "SELECT " "DISTINCT "? columns " FROM " table join? join? (" WHERE " conditions)? group? order? (" LIMIT " [1-9] [0-9]?)?
columns ::= "*" | item (", " item){0,4}
item ::= column | aggregate
aggregate ::= "COUNT(*)" | ("COUNT" | "SUM" | "AVG" | "MIN" | "MAX") "(" "DISTINCT "? column ")"
join ::= (" JOIN " | " LEFT JOIN ") table " ON " column " = " column
group ::= " GROUP BY " column (", " column)? (" HAVING " condition)?
order ::= " ORDER BY " item (" DESC" | " ASC")? (", " item (" DESC" | " ASC")?)?
conditions ::= condition ((" AND " | " OR ") condition){0,3}
condition ::= item " " comparison " " (value | column | "(" inner ")") | membership
membership ::= column (" IS NULL" | " IS NOT NULL") | column " NOT"? " IN (" inner ")"
inner ::= "SELECT " item " FROM " table (" WHERE " simple)?
simple ::= column " " comparison " " value | column (" IS NULL" | " IS NOT NULL")
comparison ::= "=" | "<>" | "<=" | ">=" | "<" | ">"
value ::= "-"? [0-9]{1,6} ("." [0-9]{1,3})? | "'" [^'\n\\\x00-\x1f]{1,30} "'"
column ::= word ("." word)?
table ::= word
word ::= [a-z] [a-z_]{0,19}
`;
