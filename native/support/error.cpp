#include "support/error.h"

#include <system_error>

namespace isopro {

const char* codeName(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::aborted:
      return "ABORTED";
    case ErrorCode::adapterCorrupt:
      return "ADAPTER_CORRUPT";
    case ErrorCode::adapterMismatch:
      return "ADAPTER_MISMATCH";
    case ErrorCode::archUnsupported:
      return "ARCH_UNSUPPORTED";
    case ErrorCode::contextOverflow:
      return "CONTEXT_OVERFLOW";
    case ErrorCode::grammarInvalid:
      return "GRAMMAR_INVALID";
    case ErrorCode::invalidArgument:
      return "INVALID_ARGUMENT";
    case ErrorCode::modelCorrupt:
      return "MODEL_CORRUPT";
    case ErrorCode::modelNotFound:
      return "MODEL_NOT_FOUND";
    case ErrorCode::modelUnsupported:
      return "MODEL_UNSUPPORTED";
    case ErrorCode::numericFailure:
      return "NUMERIC_FAILURE";
    case ErrorCode::objectDisposed:
      return "OBJECT_DISPOSED";
    case ErrorCode::outOfMemory:
      return "OUT_OF_MEMORY";
    case ErrorCode::systemLimit:
      return "SYSTEM_LIMIT";
    case ErrorCode::nativeFailure:
      break;
  }
  return "NATIVE_FAILURE";
}

void invalid(const std::string& what) { throw Error(ErrorCode::invalidArgument, what); }

ErrorCode refusal(int systemError, ErrorCode code) {
  const std::error_condition condition =
      std::system_category().default_error_condition(systemError);
  if (condition == std::errc::not_enough_memory) return ErrorCode::outOfMemory;
  for (const std::errc limit :
       {std::errc::too_many_files_open, std::errc::too_many_files_open_in_system,
        std::errc::resource_unavailable_try_again}) {
    if (condition == limit) return ErrorCode::systemLimit;
  }
  return code;
}

}  // namespace isopro
