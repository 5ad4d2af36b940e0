// What no text could be followed through.
#pragma once

#include <vector>

#include "inference/grammar_rules.h"

namespace isopro {

// Whether some text completes each rule; none does where each alternative leads back to such a
// rule.
std::vector<bool> productiveRules(const GrammarRules& rules);

// The rules of one circle in which a rule reaches itself before any character, with something still
// to come after it, which a matcher would follow without end; empty where there is none. (Where
// nothing is to come, as in x* of an x that may be empty, the matcher meets a state that it has
// seen.)
std::vector<bool> leftRecursiveRules(const GrammarRules& rules);

}  // namespace isopro
