// A thread, or the reason why the system started none.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "support/error.h"

namespace isopro {

// Throws SYSTEM_LIMIT.
template <typename Body>
std::thread startThread(Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& failure) {
    throw Error(ErrorCode::systemLimit,
                std::string("the system started no further thread: ") + failure.code().message());
  }
}

}  // namespace isopro
