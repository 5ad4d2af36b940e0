#include "inference/tokenizer.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <limits>
#include <new>
#include <unordered_map>
#include <utility>

#include "inference/llama_call.h"
#include "support/error.h"
#include "support/gguf.h"
#include "support/own_stack.h"

namespace isopro {
namespace {

// How many times larger a frame is with the red zones of the address sanitiser (GCC and Clang tell
// of it differently).
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ISOPRO_RED_ZONES
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(ISOPRO_RED_ZONES)
constexpr std::size_t kFrames = 16;
#else
constexpr std::size_t kFrames = 1;
#endif
constexpr std::size_t kMostStack =
    kFrames *
    (std::size_t{128} << 20);  // of one text; taken only as far as its longest run needs it
constexpr std::size_t kCallersStack = std::size_t{64}
                                      << 10;  // what any thread of ours or of Node's has left
constexpr std::size_t kStackMargin = std::size_t{256}
                                     << 10;  // what llama.cpp needs beside its recursion
constexpr double kStackReserve = 1.5;        // over what was measured

// From so many bytes on the special tokens of a text are found here: llama.cpp walks a list from
// its beginning at each.
constexpr std::size_t kOwnFragments = 4096;

// superbpe looks from every digit to the end of its run.
constexpr std::size_t kDigitsOfWord = 96;  // a multiple of three
// deepseek-llm looks from every blank to the end of its run: pairs of blanks of one run, in a text.
constexpr std::uint64_t kMostBlankPairs = 30'000'000;

bool isBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool beginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// Of a character by its first byte: letter, digit, white space, other ASCII, all else.
std::size_t classOf(char c) {
  if ((static_cast<unsigned char>(c) & 0x80) != 0) return 4;
  if (isDigit(c)) return 1;
  if (isBlank(c)) return 2;
  return std::isalpha(static_cast<unsigned char>(c)) != 0 ? 0 : 3;
}

std::string repeated(const char* unit, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += unit;
  return text;
}

std::size_t charactersOf(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), beginsCharacter));
}

// Bytes of the white space other than a line break that a text begins with (Unicode's White_Space);
// 0: none.
std::size_t blankAt(std::string_view text) {
  if (text.front() == '\n' || text.front() == '\r') return 0;
  if (isBlank(text.front())) return 1;
  for (const char* wide : {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
                           "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
                           "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    const std::string_view blank(wide);
    if (text.substr(0, blank.size()) == blank) return blank.size();
  }
  return 0;
}

// The character, in UTF-8, that stands for a byte in the tokens of byte-level BPE (GPT-2's table):
// itself where it is printed and no blank, else the next one from U+0100 on.
std::array<std::string, 256> charactersOfBytes() {
  std::array<std::string, 256> characters;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < characters.size(); ++byte) {
    const bool isPrinted = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    const unsigned point = isPrinted ? byte : next++;
    if (point < 0x80) {
      characters[byte] = {static_cast<char>(point)};
    } else {
      characters[byte] = {static_cast<char>(0xc0 | (point >> 6)),
                          static_cast<char>(0x80 | (point & 0x3f))};
    }
  }
  return characters;
}

}  // namespace

Tokenizer::Tokenizer(const llama_vocab* vocab, std::string preTokenizer)
    : vocab_(vocab), preTokenizer_(std::move(preTokenizer)) {
  for (Token token = 0; token < llama_vocab_n_tokens(vocab); ++token) {
    const int attributes = llama_vocab_get_attr(vocab, token);
    if ((attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED |
                       LLAMA_TOKEN_ATTR_UNKNOWN)) != 0)
      specials_.push_back({token, llama_vocab_get_text(vocab, token), attributes});
  }
  std::sort(specials_.begin(), specials_.end(),
            [](const Special& a, const Special& b) { return a.text.size() > b.text.size(); });

  if (llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_BPE) return;
  const bool stripsBlanks =
      std::any_of(specials_.begin(), specials_.end(), [](const Special& special) {
        return (special.attributes & (LLAMA_TOKEN_ATTR_LSTRIP | LLAMA_TOKEN_ATTR_RSTRIP)) != 0;
      });
  isInjective_ = !stripsBlanks && hasEachByte();
  stackOf("1 a");  // what llama.cpp makes at its first text
  const std::size_t least = stackOf("1 a");
  // One of each class of characters that a pre-tokenizer tells apart, and mixtures that some of
  // them take as one word.
  for (const char* unit :
       {"1",  "a",  "A",    "aA", "\u0436", "\u4e2d", "\u304b", "\uac00",    "\u0663",
        " ",  "\n", "\r\n", "\t", ".",      "+",      "\u0301", "a\u0301",   "a.",
        ".1", "a1", "\n/",  " .", "'s",     "\u00a0", "\x01",   "\U0001f600"}) {
    const double slope = stackSlope(unit, least);
    for (const char* c = unit; *c != '\0'; ++c) {
      double& most = stackPerCharacter_[classOf(*c)];
      most = std::max(most, slope);
    }
  }
  recurses_ = std::any_of(stackPerCharacter_.begin(), stackPerCharacter_.end(),
                          [](double bytes) { return bytes > 0; });
  if (!recurses_) return;
  for (const char* unit : {"a ", "1 ", ". ", "\u4e2d ", "a\u0301 ", "+ "})
    blankEndsRun_ = blankEndsRun_ && stackSlope(unit, least) == 0;
  for (const char* unit : {"a\n", "1\n", ".\n", "\u4e2d\n", "a\u0301\n", "+\n"})
    lineBreakEndsRun_ = lineBreakEndsRun_ && stackSlope(unit, least) == 0;
}

// A byte without a token is dropped, and a vocabulary that escapes blanks has another token for
// one.
bool Tokenizer::hasEachByte() const {
  std::unordered_map<std::string, Token> tokens;  // of a character of that table
  for (Token token = 0; token < llama_vocab_n_tokens(vocab_); ++token) {
    const std::string_view text = llama_vocab_get_text(vocab_, token);
    if (text.size() <= 2) tokens.emplace(text, token);
  }
  const std::array<std::string, 256> characters = charactersOfBytes();
  for (std::size_t byte = 0; byte < characters.size(); ++byte) {
    const auto found = tokens.find(characters[byte]);
    if (found == tokens.end()) return false;
    std::vector<Token> alone;
    if (byte < 0x80) call(std::string(1, static_cast<char>(byte)), false, alone);
    if (byte < 0x80 && alone != std::vector<Token>{found->second}) return false;
  }
  return true;
}

std::size_t Tokenizer::stackOf(const std::string& text) const {
  constexpr std::size_t stack = kFrames * (std::size_t{1} << 20);  // of some hundred characters
  std::vector<Token> ignored;
  return stackUsedBy(stack, [&] { call(text, false, ignored); });
}

double Tokenizer::stackSlope(const char* unit, std::size_t least) const {
  constexpr int times = 400;
  constexpr double noise = 48;  // less than a frame
  const std::size_t used = stackOf(repeated(unit, times));
  const double slope = used <= least ? 0
                                     : static_cast<double>(used - least) /
                                           (times * static_cast<double>(charactersOf(unit)));
  return slope < noise ? 0 : slope;
}

// The piece whose one match may go deepest. No expression goes on where white space ends, except
// that some take `/` with the line breaks before it, and one takes words with the blanks between
// them.
Tokenizer::Run Tokenizer::deepestRun(std::string_view text) const {
  Run deepest{0, 0}, run{0, 0};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!beginsCharacter(text[i])) continue;
    const char before = i == 0 ? 'a' : text[i - 1];
    const bool ends =
        before == '\n' || before == '\r' ? lineBreakEndsRun_ : blankEndsRun_ && isBlank(before);
    if (ends && !isBlank(text[i]) && text[i] != '/') run = {0, 0};
    ++run.characters;
    run.stack += stackPerCharacter_[classOf(text[i])];
    if (run.stack > deepest.stack) deepest = run;
  }
  return deepest;
}

std::vector<Token> Tokenizer::tokens(std::string_view text, bool parseControl) const {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw Error(ErrorCode::invalidArgument, "a text of more than 2^31 bytes cannot be tokenised");
  std::vector<Token> tokens;
  if (text.size() < kOwnFragments && wordsOf(text).size() <= 1) {
    append(text, parseControl, tokens);
    return tokens;
  }
  for (const Fragment& fragment : fragmentsOf(text, parseControl)) {
    if (fragment.text.empty()) {
      tokens.push_back(fragment.token);
    } else {
      for (const std::string_view word : wordsOf(fragment.text)) append(word, parseControl, tokens);
    }
  }
  return tokens;
}

// What llama.cpp makes of a text before it looks at words, in time that does not grow with the
// square of the tokens found.
std::vector<Tokenizer::Fragment> Tokenizer::fragmentsOf(std::string_view text,
                                                        bool parseControl) const {
  const auto isSpace = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  std::vector<Fragment> fragments;
  if (!text.empty()) fragments.push_back({text, LLAMA_TOKEN_NULL});
  for (const Special& special : specials_) {
    const bool isControl =
        (special.attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
    if ((isControl && !parseControl) || special.text.empty() ||
        text.find(special.text) == std::string_view::npos)
      continue;
    std::vector<Fragment> found;
    found.reserve(fragments.size() + 2);
    for (const Fragment& fragment : fragments) {
      if (fragment.text.empty()) {
        found.push_back(fragment);
        continue;
      }
      std::string_view rest = fragment.text;
      for (std::size_t at = rest.find(special.text); at != std::string_view::npos;
           at = rest.find(special.text)) {
        std::string_view left = rest.substr(0, at);
        if ((special.attributes & LLAMA_TOKEN_ATTR_LSTRIP) != 0)
          while (!left.empty() && isSpace(left.back())) left.remove_suffix(1);
        if (!left.empty()) found.push_back({left, LLAMA_TOKEN_NULL});
        found.push_back({{}, special.token});
        rest.remove_prefix(at + special.text.size());
        if ((special.attributes & LLAMA_TOKEN_ATTR_RSTRIP) != 0)
          while (!rest.empty() && isSpace(rest.front())) rest.remove_prefix(1);
      }
      if (!rest.empty()) found.push_back({rest, LLAMA_TOKEN_NULL});
    }
    fragments = std::move(found);
  }
  return fragments;
}

// Pieces that the pre-tokenizer certainly parts: superbpe makes words of three digits, counted from
// the end of a run of them.
std::vector<std::string_view> Tokenizer::wordsOf(std::string_view text) const {
  if (preTokenizer_ != "superbpe") return {text};
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!isDigit(text[i])) continue;
    std::size_t end = i;
    while (end < text.size() && isDigit(text[end])) ++end;
    for (std::size_t first = (end - i) % kDigitsOfWord;
         i + first < end && end - i >= 2 * kDigitsOfWord; first += kDigitsOfWord) {
      if (i + first == begin) continue;
      words.push_back(text.substr(begin, i + first - begin));
      begin = i + first;
    }
    i = end;
  }
  words.push_back(text.substr(begin));
  return words;
}

void Tokenizer::checkWork(std::string_view text) const {
  if (preTokenizer_ != "deepseek-llm") return;
  std::uint64_t pairs = 0, run = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t blank = blankAt(text.substr(i));
    run = blank == 0 ? 0 : run + 1;
    pairs += run;
    i += std::max<std::size_t>(1, blank);
  }
  if (pairs > kMostBlankPairs)
    throw Error(ErrorCode::invalidArgument,
                "the text has too many blanks in a row for this model's pre-tokenizer, " +
                    preTokenizer_ + ", whose time grows with the square of their number: " +
                    std::to_string(pairs) + " pairs, at most " + std::to_string(kMostBlankPairs));
}

void Tokenizer::append(std::string_view text, bool parseControl, std::vector<Token>& tokens) const {
  checkWork(text);
  const Run run = recurses_ ? deepestRun(text) : Run{0, 0};
  const double stack = run.stack * kStackReserve;
  if (stack <= kCallersStack) {
    call(text, parseControl, tokens);
  } else if (stack <= kMostStack) {
    onOwnStack(static_cast<std::size_t>(stack) + kStackMargin,
               [&] { call(text, parseControl, tokens); });
  } else {
    const double most = static_cast<double>(run.characters) * kMostStack / stack;
    throw Error(ErrorCode::invalidArgument,
                "the text has " + std::to_string(run.characters) + " characters in a row without " +
                    (blankEndsRun_ ? "a blank" : "a line break") + "; this model's pre-tokenizer" +
                    (preTokenizer_.empty() ? "" : ", " + inQuotes(preTokenizer_) + ",") +
                    " takes some " + std::to_string(static_cast<std::size_t>(most)) + " such");
  }
}

void Tokenizer::call(std::string_view text, bool parseControl, std::vector<Token>& tokens) const {
  const std::size_t begin = tokens.size();
  const auto fill = [&](std::size_t room) {
    tokens.resize(begin + room);
    return callLlama(
        [&] {
          return llama_tokenize(vocab_, text.data(), static_cast<std::int32_t>(text.size()),
                                tokens.data() + begin, static_cast<std::int32_t>(room), false,
                                parseControl);
        },
        0);
  };
  std::int32_t count = 0;
  try {
    count = fill(text.size() + 16);
    if (count < 0 && count != std::numeric_limits<std::int32_t>::min())
      count = fill(static_cast<std::size_t>(-count));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error& failure) {
    if (failure.code() != ErrorCode::nativeFailure) throw;
    throw Error(ErrorCode::invalidArgument,
                std::string("the text cannot be tokenised: ") + failure.what());
  } catch (const std::exception& failure) {
    // Where the standard library bounds its expressions itself, it throws.
    throw Error(ErrorCode::invalidArgument,
                std::string("the text cannot be tokenised: ") + failure.what());
  }
  if (count < 0) throw Error(ErrorCode::invalidArgument, "the text cannot be tokenised");
  tokens.resize(begin + static_cast<std::size_t>(count));
}

}  // namespace isopro
