// Where a reply's text ends and how much of it can be shown while it grows; which beginnings of
// prompts are found again.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "inference/prefix_cache.h"
#include "inference/reply.h"
#include "support/random.h"

using isopro::AppliedAdapter;
using isopro::PrefixCache;
using isopro::Random;
using isopro::ReplyLimits;
using isopro::Token;

namespace {

ReplyLimits stoppingAt(std::vector<std::string> stops) {
  ReplyLimits limits;
  limits.stopStrings = std::move(stops);
  return limits;
}

const AppliedAdapter kBare;

}  // namespace

TEST(reply_shows_no_beginning_of_a_stop_string) {
  const ReplyLimits limits = stoppingAt({"END", "\n\n"});
  CHECK(limits.settled("") == 0);
  CHECK(limits.settled("text") == 4);
  CHECK(limits.settled("the E") == 4);
  CHECK(limits.settled("the EN") == 4);
  CHECK(limits.settled("the ENE") == 6);
  CHECK(limits.settled("line\n") == 4);
  CHECK(stoppingAt({"aab"}).settled("aaa") == 1);
  CHECK(stoppingAt({}).settled("END") == 3);
}

TEST(reply_shows_what_stops_do_not_reach) {
  ReplyLimits limits = stoppingAt({"i", "<t"});
  limits.stopBefore = "<tool>";
  CHECK(limits.settled("a <") == 2);  // text, or the beginning of what no stop ends
  CHECK(limits.settled("a <tool") == 2);
  CHECK(limits.settled("a <toot") == 7);
  CHECK(limits.settled("a <tool><") == 9);
  CHECK(limits.settled("<tool>\n\xE2\x82") == 7);
}

TEST(reply_shows_whole_characters_only) {
  const ReplyLimits limits;
  const std::string euro = "\xE2\x82\xAC", face = "\xF0\x9F\x98\x80";
  CHECK(limits.settled("a" + euro) == 4);
  CHECK(limits.settled("a" + euro.substr(0, 2)) == 1);
  CHECK(limits.settled("a" + euro.substr(0, 1)) == 1);
  CHECK(limits.settled("a" + face.substr(0, 3)) == 1);
  CHECK(limits.settled(face) == 4);
  CHECK(limits.settled("\x80\x80\x80\x80") == 4);  // part of no character: nothing will make it one
}

TEST(prefix_cache_finds_the_longest_beginning_and_leaves_a_token_to_evaluate) {
  std::vector<llama_seq_id> evicted;
  const auto evict = [&](llama_seq_id id) { evicted.push_back(id); };
  PrefixCache cache(100, {7, 8, 9});
  CHECK(!cache.find(kBare, {1, 2, 3}));
  const auto first = cache.keep(kBare, {1, 2, 3, 4}, evict);
  const auto second = cache.keep(kBare, {1, 2, 9}, evict);
  CHECK(first && first->length == 4);
  CHECK(second && second->length == 3 && second->sequence != first->sequence);
  const auto found = cache.find(kBare, {1, 2, 3, 5});
  CHECK(found && found->sequence == first->sequence && found->length == 3);
  CHECK(cache.find(kBare, {1, 2, 9})->length == 2);
  CHECK(!cache.find(kBare, {1}));
  CHECK(!cache.find(kBare, {2, 3}));
  CHECK(cache.tokens() == 7);
  // What continues a kept one takes its place; what a kept one continues is not kept.
  CHECK(cache.keep(kBare, {1, 2, 3, 4, 5}, evict)->length == 5);
  CHECK((evicted == std::vector<llama_seq_id>{first->sequence}));
  CHECK(!cache.keep(kBare, {1, 2}, evict));
  CHECK(cache.tokens() == 8);
}

TEST(prefix_cache_shares_nothing_between_partitions) {
  std::vector<llama_seq_id> evicted;
  const auto evict = [&](llama_seq_id id) { evicted.push_back(id); };
  PrefixCache cache(100, {7, 8, 9});
  const auto own = cache.keep(kBare, {1, 2, 3}, evict, "one");
  CHECK(!cache.find(kBare, {1, 2, 3, 4}));
  CHECK(!cache.find(kBare, {1, 2, 3, 4}, "two"));
  CHECK(cache.find(kBare, {1, 2, 3, 4}, "one")->sequence == own->sequence);
  // Nor does what one keeps take the place of what another does, or spare it.
  CHECK(cache.keep(kBare, {1, 2, 3, 4}, evict, "two")->length == 4);
  CHECK(cache.keep(kBare, {1, 2}, evict, "three")->length == 2);
  CHECK(evicted.empty());
}

TEST(prefix_cache_of_no_tokens_keeps_nothing) {
  PrefixCache cache(0, {1, 2});
  CHECK(!cache.keep(kBare, {1, 2}, [](llama_seq_id) {}));
  CHECK(cache.empty());
}

TEST(prefix_cache_drops_what_was_used_longest_ago) {
  std::vector<llama_seq_id> evicted;
  const auto evict = [&](llama_seq_id id) { evicted.push_back(id); };
  PrefixCache cache(6, {1, 2, 3, 4});
  const llama_seq_id old = cache.keep(kBare, {10, 11}, evict)->sequence;
  const llama_seq_id idle = cache.keep(kBare, {20, 21}, evict)->sequence;
  cache.keep(kBare, {30, 31}, evict);
  cache.find(kBare, {10, 11, 12});
  CHECK(cache.keep(kBare, {40, 41}, evict).has_value());
  CHECK((evicted == std::vector<llama_seq_id>{idle}));
  // More than may be kept: its beginning, in place of all others.
  CHECK(cache.keep(kBare, {50, 51, 52, 53, 54, 55, 56, 57}, evict)->length == 6);
  CHECK(evicted.size() == 4);
  CHECK(std::find(evicted.begin(), evicted.end(), old) != evicted.end());
  CHECK(cache.tokens() == 6);
}

// Against a list that is searched from end to end.
TEST(prefix_cache_agrees_with_a_plain_list) {
  Random random(7);
  const auto draw = [&](int below) { return static_cast<int>(random.nextDouble() * below); };
  const auto sequence = [&] {
    std::vector<Token> tokens(static_cast<size_t>(1 + draw(6)));
    for (Token& token : tokens) token = draw(3);
    return tokens;
  };
  PrefixCache cache(20, {0, 1, 2, 3, 4});
  std::vector<std::vector<Token>> held(5);
  for (int round = 0; round < 5000; ++round) {
    const std::vector<Token> tokens = sequence();
    if (draw(2) == 0) {
      const auto kept = cache.keep(kBare, tokens,
                                   [&](llama_seq_id id) { held[static_cast<size_t>(id)].clear(); });
      if (!kept) continue;
      CHECK(held[static_cast<size_t>(kept->sequence)].empty());
      held[static_cast<size_t>(kept->sequence)].assign(tokens.begin(),
                                                       tokens.begin() + kept->length);
      int sum = 0;
      for (const auto& each : held) sum += static_cast<int>(each.size());
      CHECK(cache.tokens() == sum && sum <= 20);
    } else {
      size_t longest = 0;
      const auto common = [&](const std::vector<Token>& each) {
        size_t length = 0;
        while (length < each.size() && length + 1 < tokens.size() && each[length] == tokens[length])
          ++length;
        return length;
      };
      for (const auto& each : held) longest = std::max(longest, common(each));
      const auto found = cache.find(kBare, tokens);
      CHECK(found.has_value() == (longest > 0));
      if (found)
        CHECK(static_cast<size_t>(found->length) == longest &&
              common(held[static_cast<size_t>(found->sequence)]) == longest);
    }
  }
}
