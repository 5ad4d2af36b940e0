/** Why a template gives no text. */

/** The template is wrong, or says so itself. */
export class TemplateError extends Error {}

/** It would take more time or memory than any conversation needs. */
export class TemplateLimit extends TemplateError {}

/** It asks for something of jinja2 that is not covered here: what that is called. */
export class NotCovered extends TemplateError {
  readonly what: string;

  constructor(what: string) {
    super(`it uses ${what}, which is not supported`);
    this.what = what;
  }
}
