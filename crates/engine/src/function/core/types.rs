//! `instanceOfBoolean` and its family: the class of the actual value; null is of none.

use event::{Column, Type, Values};

use super::params::*;
use crate::component::{Argument, EvalContext, Evaluate, Function, Refused};
use crate::spec::*;

pub struct InstanceOf {
    spec: &'static FunctionSpec,
    ty: Type,
}

macro_rules! instance_of {
    ($constant:ident, $name:literal, $summary:literal, $overloads:expr, $ty:ident, $example:literal) => {
        pub static $constant: InstanceOf = InstanceOf {
            spec: {
                static SPEC: FunctionSpec =
                    runs(scalar($name, $summary, $overloads, BOOL), $example);
                &SPEC
            },
            ty: Type::$ty,
        };
    };
}

instance_of!(
    INSTANCE_OF_BOOLEAN,
    "instanceOfBoolean",
    "Whether the value is a BOOL.",
    ONE_ANY,
    Bool,
    "instanceOfBoolean(symbol) as b"
);
instance_of!(
    INSTANCE_OF_DOUBLE,
    "instanceOfDouble",
    "Whether the value is a DOUBLE.",
    ONE_ANY,
    Double,
    "instanceOfDouble(price) as b"
);
instance_of!(
    INSTANCE_OF_FLOAT,
    "instanceOfFloat",
    "Whether the value is a FLOAT.",
    ONE_ANY,
    Float,
    "instanceOfFloat(price) as b"
);
instance_of!(
    INSTANCE_OF_INTEGER,
    "instanceOfInteger",
    "Whether the value is an INT.",
    ONE_ANY,
    Int,
    "instanceOfInteger(price) as b"
);
instance_of!(
    INSTANCE_OF_LONG,
    "instanceOfLong",
    "Whether the value is a LONG.",
    ONE_ANY,
    Long,
    "instanceOfLong(price) as b"
);
instance_of!(
    INSTANCE_OF_STRING,
    "instanceOfString",
    "Whether the value is a STRING.",
    ONE_ANY,
    String,
    "instanceOfString(symbol) as b"
);

impl Function for InstanceOf {
    fn spec(&self) -> &'static FunctionSpec {
        self.spec
    }

    fn bind(&self, _: &[Argument]) -> Result<Box<dyn Evaluate>, Refused> {
        Ok(Box::new(ClassTest(self.ty)))
    }
}

struct ClassTest(Type);

impl Evaluate for ClassTest {
    fn evaluate(&mut self, args: &[Column], rows: usize, _: &mut EvalContext<'_>) -> Column {
        let column = &args[0];
        let marks = (0..rows)
            .map(|row| column.value(row).ty() == Some(self.0))
            .collect();
        Column::new(Values::Bool(marks), None)
    }

    fn is_fallible(&self) -> bool {
        false
    }
}
