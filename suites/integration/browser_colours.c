/* The colours a reader sees: by the computed styles, measured from outside of the page's frame. */
#include "base/buffer.h"
#include "suites/integration/browser.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PRINT: rules for print are put in force for all media, in the order that they stand in; those for screens go. What is
 * behind a text is the nearest background that is not transparent; colours with a transparent part are mixed with it.
 */
static const char SCRIPT[] =
    "<script>onload=()=>{const f=document.querySelector('iframe'),d=f.contentDocument,w=f.contentWindow;"
    "d.querySelectorAll('details').forEach(e=>e.open=true);"
    "if(PRINT)for(const s of d.styleSheets)for(const r of s.cssRules)if(r.media){const m=r.media;"
    "if(m.mediaText=='print')m.mediaText='all';else if(m.mediaText.startsWith('screen'))m.mediaText='speech'}"
    "const numbers=s=>{const n=s.match(/[\\d.]+/g).map(Number);return{c:n.slice(0,3),a:n.length>3?n[3]:1}};"
    "const light=c=>{const l=c.map(v=>(v/=255)<=.04045?v/12.92:((v+.055)/1.055)**2.4);"
    "return .2126*l[0]+.7152*l[1]+.0722*l[2]};"
    "const mix=(x,y)=>x.c.map((v,i)=>v*x.a+y[i]*(1-x.a));"
    "const behind=e=>{if(!e)return null;const b=numbers(w.getComputedStyle(e).backgroundColor);"
    "if(b.a==1)return b.c;const g=behind(e.parentElement);return b.a==0?g:mix(b,g||[255,255,255])};"
    "const opacity=e=>e?w.getComputedStyle(e).opacity*opacity(e.parentElement):1;"
    "let n=0,least=99,of='';const see=(e,style,text)=>{n++;const g=behind(e)||[255,255,255];"
    "const c=numbers(e.namespaceURI.endsWith('svg')?style.fill:style.color);c.a*=opacity(e);"
    "const x=light(mix(c,g)),y=light(g),k=(Math.max(x,y)+.05)/(Math.min(x,y)+.05);"
    "if(k<least){least=k;of=text}};"
    "for(const e of d.body.querySelectorAll('*')){if(!e.getClientRects().length)continue;"
    "const own=[...e.childNodes].filter(t=>t.nodeType==3).map(t=>t.data.trim()).join(' ').trim();"
    "if(own)see(e,w.getComputedStyle(e),own);const b=w.getComputedStyle(e,'::before');"
    "if(/[a-z]/.test(b.content)&&b.content!='none'&&b.content!='normal')see(e,b,b.content)}"
    "const g=behind(d.body);document.title='colours '+[g?light(g):-1,least,n,"
    "of.slice(0,30).replace(/[^ -~]|[<>&]/g,'?')].join(' ')+' end'}</script>";

bool kg_browser_colours(struct kg_record *rec, const char *html, int width, enum kg_ground ground,
                        struct kg_colours *colours) {
    char *head = kg_xasprintf("<meta name=\"color-scheme\" content=\"light dark\"><script>const PRINT=%d</script>%s",
                              ground == KG_GROUND_PAPER, SCRIPT);
    char *frame = kg_browser_frame(head, html, width), *url = kg_browser_file(rec, "colours.html", frame);
    const char *const args[] = { "--virtual-time-budget=5000",
                                 ground == KG_GROUND_LIGHT ? "--blink-settings=preferredColorScheme=1"
                                                           : "--blink-settings=preferredColorScheme=0",
                                 "--dump-dom", url, NULL };
    struct kg_process_result result;
    const bool looked = kg_browser_run(rec, args, &result);
    if (looked) {
        const char *at = strstr(result.out, "<title>colours ");
        ck_assert_msg(at != NULL, "the page was not looked at: %.400s", result.out);
        const int n = sscanf(at, "<title>colours %lf %lf %d %127[^\n]", &colours->ground, &colours->least_contrast,
                             &colours->n_texts, colours->of);
        ck_assert_msg(n == 4, "%.200s", at);
        char *end = strstr(colours->of, " end");
        if (end) *end = '\0';
        kg_process_result_free(&result);
    }
    free(url);
    free(frame);
    free(head);
    return looked;
}
