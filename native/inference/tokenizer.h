// Token ids of texts: the one way from a text to tokens. The tokens are llama.cpp's; what is ours
// is that any text may come.
//
// Where llama.cpp has no scanner of its own for a file's pre-tokenizer it splits by std::regex,
// which in libstdc++ calls itself once a character: the stack that this takes follows the longest
// match. How much a character takes is measured when a model is loaded, a longer text runs on a
// stack of its own, and what would take more than a bound is refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <llama.h>

namespace isopro {

using Token = llama_token;

class Tokenizer {
 public:
  // `preTokenizer`: the file's tokenizer.ggml.pre. Throws OUT_OF_MEMORY, SYSTEM_LIMIT.
  Tokenizer(const llama_vocab* vocab, std::string preTokenizer);

  // Control tokens are recognised only where parseControl is set; no BOS is added.
  // Throws INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_LIMIT.
  std::vector<Token> tokens(std::string_view text, bool parseControl) const;

  // Whether the depth of llama.cpp's calls follows the text.
  bool recurses() const { return recurses_; }

  // Whether texts that differ have tokens that differ: of byte-level BPE with a token for each
  // byte. False where it is not known.
  bool isInjective() const { return isInjective_; }

 private:
  // A token that llama.cpp finds in a text before anything else.
  struct Special {
    Token token;
    std::string text;
    int attributes;  // llama_token_attr
  };
  // A piece of a text, or where that is empty a token.
  struct Fragment {
    std::string_view text;
    Token token;
  };

  struct Run {
    std::size_t characters;
    double stack;  // bytes
  };

  bool hasEachByte() const;
  std::size_t stackOf(const std::string& text) const;
  double stackSlope(const char* unit, std::size_t least) const;
  Run deepestRun(std::string_view text) const;
  std::vector<Fragment> fragmentsOf(std::string_view text, bool parseControl) const;
  std::vector<std::string_view> wordsOf(std::string_view text) const;
  void checkWork(std::string_view text) const;
  void append(std::string_view text, bool parseControl, std::vector<Token>& tokens) const;
  void call(std::string_view text, bool parseControl, std::vector<Token>& tokens) const;

  const llama_vocab* vocab_;
  std::string preTokenizer_;
  std::vector<Special> specials_;              // longest first
  std::array<double, 5> stackPerCharacter_{};  // bytes, by the character's class
  bool recurses_ = false;
  bool isInjective_ = false;
  bool blankEndsRun_ = true;
  bool lineBreakEndsRun_ = true;
};

}  // namespace isopro
