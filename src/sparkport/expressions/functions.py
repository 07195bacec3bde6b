"""The functions that expressions may call.

It is a list of allowed functions, so that one of a newer DuckDB is refused until it was reviewed.
An allowed function reads its arguments, a clock or a random number and nothing else: no settings, variables,
sequences, catalogs, files or names of the machine. Nor is there a function whose only purpose is a value
of any size (`repeat`, `range`, `lpad`, `printf` ...); how large and slow the others get is bounded by the
worker.
"""

from __future__ import annotations

_OPERATORS = """
    !__postfix !~~ !~~* % & && * ** + - -> ->> / // <-> << <=> <@ >> @ @> ^ ^@ | || ~ ~~ ~~* ~~~
    ilike_escape like_escape not_ilike_escape not_like_escape
"""

_NUMBERS = """
    abs acos acosh add asin asinh atan atan2 atanh bin bit_count cbrt ceil ceiling cos cosh cot degrees
    divide even exp factorial fdiv floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf
    isnan lcm least least_common_multiple lgamma ln log log10 log2 mod multiply nextafter pi pow power
    radians random round round_even roundbankers sign signbit sin sinh sqrt subtract tan tanh to_base
    to_binary to_hex trunc xor
"""

_TEXTS = """
    array_to_string ascii bar base64 bit_length bit_position char_length character_length chr concat
    concat_ws contains damerau_levenshtein decode editdist3 encode ends_with format_bytes
    formatreadabledecimalsize formatreadablesize from_base64 from_binary from_hex get_bit hamming hash hex
    instr jaccard jaro_similarity jaro_winkler_similarity lcase left left_grapheme len length
    length_grapheme levenshtein lower ltrim md5 md5_number md5_number_lower md5_number_upper mismatches
    nfc_normalize octet_length ord overlay parse_dirname parse_dirpath parse_filename parse_path position
    prefix regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
    regexp_split_to_array replace reverse right right_grapheme rtrim set_bit sha1 sha256 split split_part
    starts_with str_split str_split_regex string_split string_split_regex string_to_array strip_accents
    strlen strpos substr substring substring_grapheme suffix to_base64 translate trim ucase unbin unhex
    unicode upper url_decode url_encode
"""

_TIMES = """
    age century current_date current_localtime current_localtimestamp date_add date_diff date_part date_sub
    date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade epoch
    epoch_ms epoch_ns epoch_us era get_current_time get_current_timestamp hour isodow isoyear julian
    last_day make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz
    microsecond millennium millisecond minute month monthname nanosecond normalized_interval now quarter
    second strftime strptime time_bucket timezone timezone_hour timezone_minute to_centuries to_days
    to_decades to_hours to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters
    to_seconds to_timestamp to_weeks to_years today transaction_timestamp try_strptime week weekday
    weekofyear year yearweek
"""

_LISTS = """
    aggregate apply array_aggr array_aggregate array_append array_apply array_cat array_concat
    array_contains array_cosine_distance array_cosine_similarity array_cross_product array_distance
    array_distinct array_dot_product array_extract array_filter array_grade_up array_has array_has_all
    array_has_any array_indexof array_inner_product array_intersect array_length array_negative_dot_product
    array_negative_inner_product array_pop_back array_pop_front array_position array_prepend array_push_back
    array_push_front array_reduce array_reverse array_reverse_sort array_select array_slice array_sort
    array_transform array_unique array_value array_where array_zip element_at filter flatten grade_up
    list_aggr list_aggregate list_any_value list_append list_apply list_approx_count_distinct list_avg
    list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_cat list_concat list_contains
    list_cosine_distance list_cosine_similarity list_count list_distance list_distinct list_dot_product
    list_element list_entropy list_extract list_filter list_first list_grade_up list_has list_has_all
    list_has_any list_histogram list_indexof list_inner_product list_intersect list_kurtosis
    list_kurtosis_pop list_last list_mad list_max list_median list_min list_mode list_negative_dot_product
    list_negative_inner_product list_pack list_position list_prepend list_product list_reduce list_reverse
    list_reverse_sort list_select list_sem list_skewness list_slice list_sort list_stddev_pop
    list_stddev_samp list_string_agg list_sum list_transform list_unique list_value list_var_pop
    list_var_samp list_where list_zip reduce
"""

_NESTED = """
    array_to_json cardinality enum_code enum_first enum_last enum_range enum_range_boundary from_json
    from_json_strict json json_array json_array_length json_contains json_exists json_extract
    json_extract_path json_extract_path_text json_extract_string json_keys json_merge_patch json_object
    json_pretty json_quote json_structure json_transform json_transform_strict json_type json_valid
    json_value map map_concat map_contains map_contains_entry map_contains_value map_entries map_extract
    map_extract_value map_from_entries map_keys map_values row row_to_json struct_concat struct_contains
    struct_extract struct_extract_at struct_has struct_indexof struct_insert struct_pack struct_position
    struct_update to_json union_extract union_tag union_value
"""

_OTHERS = (
    "gen_random_uuid isnull nullif typeof uuid uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7"
)

ALLOWED = frozenset(
    name
    for names in (_OPERATORS, _NUMBERS, _TEXTS, _TIMES, _LISTS, _NESTED, _OTHERS)
    for name in names.split()
)
"""The names of allowed functions and operators, in lower case."""

QUICK = frozenset(
    {"!__postfix", "%", "&", "*", "**", "+", "-", "/", "//", "<<", ">>", "@", "^", "^@", "|", "~"}
    | {"abs", "ceil", "ceiling", "char_length", "character_length", "date_diff", "date_part", "date_trunc"}
    | {"datediff", "datepart", "datetrunc", "day", "ends_with", "floor", "greatest", "hour", "isfinite"}
    | {"isnan", "isnull", "last_day", "lcase", "least", "left", "len", "length", "lower", "ltrim", "minute"}
    | {"mod", "month", "now", "nullif", "octet_length", "prefix", "right", "round", "rtrim", "second"}
    | {"sign", "starts_with", "strlen", "struct_extract", "substr", "substring", "suffix", "today"}
    | {"to_days", "to_hours", "to_minutes", "to_months", "to_seconds", "to_years", "trim", "trunc", "typeof"}
    | {"ucase", "upper", "year"}
)
"""Functions that take a time in proportion to their arguments and make nothing larger than these."""

ANY_SIZE = frozenset(
    {
        "array_resize",
        "bitstring",
        "format",
        "generate_series",
        "list_resize",
        "lpad",
        "printf",
        "range",
        "repeat",
        "rpad",
    }
)
"""Functions that are not allowed because the size of their result is not limited."""

VALUE_WORDS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
"""Functions that SQL writes like columns; a column of that name takes precedence."""
