// Any text has tokens or a typed error, and they are llama.cpp's own.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gguf.h>
#include <llama.h>

#include "check.h"
#include "inference/tokenizer.h"
#include "llama_backends.h"
#include "support/error.h"
#include "support/own_stack.h"
#include "support/random.h"
#include "temporary_file.h"

using isopro::Token;
using isopro::Tokenizer;

namespace {

// One of each kind that llama.cpp has.
const std::vector<std::string> kPreTokenizers = {"",
                                                 "default",
                                                 "superbpe",
                                                 "deepseek-llm",
                                                 "deepseek-coder",
                                                 "deepseek-v3",
                                                 "falcon",
                                                 "starcoder",
                                                 "gpt-2",
                                                 "llama-bpe",
                                                 "jais-2",
                                                 "command-r",
                                                 "qwen2",
                                                 "qwen35",
                                                 "stablelm2",
                                                 "poro-chat",
                                                 "viking",
                                                 "tekken",
                                                 "chameleon",
                                                 "gpt-4o",
                                                 "tiny_aya",
                                                 "bailingmoe",
                                                 "granite-embed-multi-97m",
                                                 "seed-coder",
                                                 "grok-2",
                                                 "afmoe",
                                                 "laguna",
                                                 "exaone-moe",
                                                 "minicpm5",
                                                 "youtu",
                                                 "spark2_5",
                                                 "ufakzeka",
                                                 "chatglm-bpe",
                                                 "hunyuan",
                                                 "bloom",
                                                 "smollm"};

using LlamaModel = std::unique_ptr<llama_model, decltype(&llama_model_free)>;

// The vocabulary of the embedded model under another pre-tokenizer. `change`: what else becomes of
// its metadata.
template <typename Change>
LlamaModel vocabularyWith(const std::string& preTokenizer, Change change) {
  isopro::testing::loadLlamaBackends();
  const std::string tiny = std::string(ISOPRO_TEST_DATA) + "/../assets/models/tiny.gguf";
  std::unique_ptr<gguf_context, decltype(&gguf_free)> from(
      gguf_init_from_file(tiny.c_str(), {true, nullptr}), gguf_free);
  std::unique_ptr<gguf_context, decltype(&gguf_free)> to(gguf_init_empty(), gguf_free);
  gguf_set_kv(to.get(), from.get());
  if (preTokenizer.empty()) {
    gguf_remove_key(to.get(), "tokenizer.ggml.pre");
  } else {
    gguf_set_val_str(to.get(), "tokenizer.ggml.pre", preTokenizer.c_str());
  }
  change(to.get());
  const isopro::testing::TemporaryFile file("vocabulary.gguf");
  gguf_write_to_file(to.get(), file.path().c_str(), true);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  return LlamaModel(llama_model_load_from_file(file.path().c_str(), params), llama_model_free);
}

LlamaModel vocabularyOf(const std::string& preTokenizer) {
  return vocabularyWith(preTokenizer, [](gguf_context*) {});
}

std::vector<Token> plainly(const llama_vocab* vocab, const std::string& text, bool parseControl) {
  std::vector<Token> tokens(3 * text.size() +
                            16);  // a byte that is no UTF-8 becomes a character of three
  isopro::onOwnStack(std::size_t{96} << 20, [&] {
    const int count =
        llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
                       static_cast<int>(tokens.size()), false, parseControl);
    tokens.resize(static_cast<std::size_t>(count));
  });
  return tokens;
}

std::string many(const std::string& unit, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += unit;
  return text;
}

std::uint64_t drawBelow(isopro::Random& random, std::uint64_t end) {
  return random.nextUint64() % end;
}

// Runs of pieces that pre-tokenizers tell apart, of very unlike lengths.
std::string someText(isopro::Random& random, std::size_t bytes) {
  static const std::vector<std::string> pieces = {"a",
                                                  "the ",
                                                  "Word",
                                                  "1",
                                                  "42",
                                                  "\u0663",
                                                  " ",
                                                  "  ",
                                                  "\n",
                                                  "\r\n",
                                                  "\t",
                                                  ".",
                                                  ", ",
                                                  "'s",
                                                  "'LL",
                                                  "+",
                                                  "\u4e2d\u6587",
                                                  "\u304b",
                                                  "\uac00",
                                                  "\u0436",
                                                  "e\u0301",
                                                  "\u00a0",
                                                  "\U0001f600",
                                                  "/",
                                                  "\xff",
                                                  "\x01",
                                                  "<|im_end|>",
                                                  "<|im_start|>",
                                                  "_",
                                                  "\u3000",
                                                  "A",
                                                  "zZ"};
  std::string text;
  while (text.size() < bytes) {
    const std::string& piece = pieces[drawBelow(random, pieces.size())];
    const auto times = 1 + drawBelow(random, drawBelow(random, 12) == 0 ? 700 : 3);
    for (std::uint64_t i = 0; i < times; ++i) text += piece;
  }
  return text;
}

}  // namespace

TEST(tokens_are_llama_cpp_s_own_for_every_pre_tokenizer) {
  isopro::Random random(35);
  for (const std::string& preTokenizer : kPreTokenizers) {
    const LlamaModel model = vocabularyOf(preTokenizer);
    CHECK(model != nullptr);
    if (model == nullptr) continue;
    const llama_vocab* vocab = llama_model_get_vocab(model.get());
    const Tokenizer tokenizer(vocab, preTokenizer);
    for (int i = 0; i < 12; ++i) {
      const std::string text = someText(random, i < 6 ? 1 + drawBelow(random, 300) : 5000);
      for (const bool parseControl : {false, true}) {
        check::report(
            tokenizer.tokens(text, parseControl) == plainly(vocab, text, parseControl), __FILE__,
            __LINE__,
            "'" + preTokenizer + "' has other tokens than llama.cpp, text " + std::to_string(i));
      }
    }
    CHECK(tokenizer.tokens("", true).empty());
  }
}

namespace {

std::string textOf(const llama_vocab* vocab, const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) {
    char piece[64];
    const int bytes = llama_token_to_piece(vocab, token, piece, sizeof piece, 0, true);
    text.append(piece, static_cast<std::size_t>(bytes));
  }
  return text;
}

// Metadata of the vocabulary with other texts and types of some tokens.
LlamaModel vocabularyWithTokens(const std::string& preTokenizer,
                                const std::function<void(std::vector<std::string>&)>& change,
                                std::size_t userDefined = 0) {
  return vocabularyWith(preTokenizer, [&](gguf_context* gguf) {
    const auto key = gguf_find_key(gguf, "tokenizer.ggml.tokens");
    std::vector<std::string> tokens;
    for (std::size_t i = 0; i < gguf_get_arr_n(gguf, key); ++i)
      tokens.emplace_back(gguf_get_arr_str(gguf, key, i));
    change(tokens);
    std::vector<const char*> texts;
    for (const std::string& token : tokens) texts.push_back(token.c_str());
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", texts.data(), texts.size());
    if (userDefined == 0) return;
    const auto typeKey = gguf_find_key(gguf, "tokenizer.ggml.token_type");
    const auto* given = static_cast<const std::int32_t*>(gguf_get_arr_data(gguf, typeKey));
    std::vector<std::int32_t> types(given, given + gguf_get_arr_n(gguf, typeKey));
    types[userDefined] = 4;
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(),
                      types.size());
  });
}

}  // namespace

TEST(texts_that_differ_have_tokens_that_differ_where_it_is_said) {
  isopro::Random random(36);
  for (const std::string& preTokenizer : kPreTokenizers) {
    const LlamaModel model = vocabularyOf(preTokenizer);
    const llama_vocab* vocab = llama_model_get_vocab(model.get());
    const Tokenizer tokenizer(vocab, preTokenizer);
    CHECK(tokenizer.isInjective());
    for (int i = 0; i < 8; ++i) {
      std::string text = someText(random, 600);
      text.erase(std::remove(text.begin(), text.end(), '\xff'), text.end());  // is no UTF-8
      check::report(textOf(vocab, tokenizer.tokens(text, false)) == text, __FILE__, __LINE__,
                    "'" + preTokenizer + "' loses a part of text " + std::to_string(i));
    }
  }
  // A byte without a token of its own is dropped.
  for (const char* byte : {"a", "\u0120", "\u0143", "\u00ff"}) {
    const LlamaModel model = vocabularyWithTokens("qwen2", [&](std::vector<std::string>& tokens) {
      for (std::string& token : tokens) {
        if (token == byte) token = "another";
      }
    });
    CHECK(!Tokenizer(llama_model_get_vocab(model.get()), "qwen2").isInjective());
  }
  // A character that is a token of the file's user is no byte's.
  const LlamaModel blank = vocabularyWithTokens(
      "qwen2", [](std::vector<std::string>& tokens) { tokens[300] = " "; }, 300);
  CHECK(!Tokenizer(llama_model_get_vocab(blank.get()), "qwen2").isInjective());
}

TEST(a_long_run_has_tokens_whatever_the_pre_tokenizer) {
  for (const std::string& preTokenizer : kPreTokenizers) {
    const LlamaModel model = vocabularyOf(preTokenizer);
    const llama_vocab* vocab = llama_model_get_vocab(model.get());
    const Tokenizer tokenizer(vocab, preTokenizer);
    for (const char* unit : {"1", "a", "\u4e2d", "\n", ".", "\u0301", "aA", "a "}) {
      const std::string text = many(unit, 30'000);
      const std::vector<Token> tokens = tokenizer.tokens(text, false);
      check::report(!tokens.empty(), __FILE__, __LINE__,
                    "'" + preTokenizer + "' has no tokens for " + unit);
    }
    if (preTokenizer == "superbpe" || preTokenizer == "deepseek-llm") continue;  // seconds
    for (const char* unit : {"1", " ", "\u4e2d", "z"}) {
      const std::string text = many(unit, 20'000);
      check::report(tokenizer.tokens(text, false) == plainly(vocab, text, false), __FILE__,
                    __LINE__,
                    "'" + preTokenizer + "' has other tokens than llama.cpp for a run of " + unit);
    }
  }
}

TEST(digits_of_superbpe_are_parted_where_llama_cpp_parts_them) {
  const LlamaModel model = vocabularyOf("superbpe");
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  const Tokenizer tokenizer(vocab, "superbpe");
  isopro::Random random(7);
  for (int i = 0; i < 60; ++i) {
    std::string text = i % 2 == 0 ? "x" : i % 3 == 0 ? "\u0663" : "";
    const auto digits = 180 + drawBelow(random, 600);
    for (std::uint64_t d = 0; d < digits; ++d)
      text += static_cast<char>('0' + drawBelow(random, 10));
    if (i % 5 == 0) text += "\u0663 9";
    if (i % 5 == 1) text += ".5";
    check::report(tokenizer.tokens(text, i % 4 == 0) == plainly(vocab, text, i % 4 == 0), __FILE__,
                  __LINE__, std::to_string(digits) + " digits have other tokens than llama.cpp's");
  }
}

// Of tokens that the file calls its user's llama.cpp finds every one before it looks at words,
// control tokens or not.
TEST(many_special_tokens_are_found_as_llama_cpp_finds_them) {
  const LlamaModel model = vocabularyWith("qwen2", [](gguf_context* gguf) {
    const auto key = gguf_find_key(gguf, "tokenizer.ggml.token_type");
    const auto* given = static_cast<const std::int32_t*>(gguf_get_arr_data(gguf, key));
    std::vector<std::int32_t> types(given, given + gguf_get_arr_n(gguf, key));
    for (std::size_t i = 300; i < 340; ++i) types[i] = 4;  // user-defined
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(),
                      types.size());
  });
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  const Tokenizer tokenizer(vocab, "qwen2");
  isopro::Random random(11);
  for (int i = 0; i < 20; ++i) {
    std::string text;
    while (text.size() < 5000) {
      text += drawBelow(random, 3) == 0
                  ? someText(random, 20)
                  : llama_vocab_get_text(vocab, static_cast<Token>(295 + drawBelow(random, 50)));
    }
    for (const bool parseControl : {false, true})
      CHECK(tokenizer.tokens(text, parseControl) == plainly(vocab, text, parseControl));
  }
  CHECK(tokenizer.tokens(many("<|im_end|>", 300'000), true).size() == 300'000);
}

TEST(a_run_beyond_the_bound_is_refused_by_name) {
  const LlamaModel deep = vocabularyOf("tekken");
  const Tokenizer tokenizer(llama_model_get_vocab(deep.get()), "tekken");
  CHECK(tokenizer.recurses());
  for (const char* unit : {"a", "\u4e2d", " ", "\n", "."})
    CHECK_SAYS(tokenizer.tokens(many(unit, 2'000'000), false), "INVALID_ARGUMENT",
               "characters in a row");
  // As many in all, but none in a row.
  CHECK(!tokenizer.tokens(many("some words ", 200'000), false).empty());

  const LlamaModel blanks = vocabularyOf("deepseek-llm");
  const Tokenizer squares(llama_model_get_vocab(blanks.get()), "deepseek-llm");
  for (const char* unit : {" ", "\t", "\u00a0", "\u3000"})
    CHECK_SAYS(squares.tokens(many(unit, 40'000) + "1", false), "INVALID_ARGUMENT",
               "blanks in a row");

  const LlamaModel flat = vocabularyOf("llama-bpe");
  const Tokenizer scanner(llama_model_get_vocab(flat.get()), "llama-bpe");
  CHECK(!scanner.recurses());
  CHECK(!scanner.tokens(many("a", 2'000'000), false).empty());
}

TEST(work_on_a_stack_of_its_own_throws_what_it_throws) {
  CHECK_THROWS(
      isopro::onOwnStack(1 << 20, [] { throw isopro::Error(isopro::ErrorCode::aborted, "x"); }),
      "ABORTED");
  CHECK_THROWS(isopro::onOwnStack(std::size_t{1} << 60, [] {}), "OUT_OF_MEMORY");
  volatile char last = 0;
  const auto used = isopro::stackUsedBy(4 << 20, [&] {
    volatile char taken[1 << 20];
    for (std::size_t i = 0; i < sizeof taken; i += 64) taken[i] = 1;
    last = taken[0];
  });
  CHECK(used > (1 << 20) && used < (2 << 20));
}
