// isopro::Error to JavaScript: an Error whose `code` is that of src/errors.ts.
#pragma once

#include <exception>

#include <napi.h>

namespace isopro::bindings {

// Any exception; what is not an isopro::Error becomes OUT_OF_MEMORY (std::bad_alloc) or
// NATIVE_FAILURE.
Napi::Error toJsError(Napi::Env env, std::exception_ptr failure);

// Runs a synchronous binding and rethrows what it throws as a JavaScript error.
template <typename Function>
auto guarded(Napi::Env env, Function&& function) {
  try {
    return function();
  } catch (const Napi::Error&) {
    throw;
  } catch (...) {
    throw toJsError(env, std::current_exception());
  }
}

}  // namespace isopro::bindings
